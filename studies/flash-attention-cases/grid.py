"""The cases of FlashAttention's tests, as facts: which shapes, widths, groups, masks and options they try.

Read from ``tests/cute/test_flash_attn.py`` of github.com/Dao-AILab/flash-attention at the commit below; none of its
code is here. bf16 everywhere. Causality and windows stand at the bottom right: the last query at the last key.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

__all__ = ["COMMIT", "Case", "cases", "small", "totals"]

COMMIT = "0251105a2fb1"
HEADS = 6
GROUPS = {"mha": 6, "gqa": 3, "mqa": 1}
DENSE_SHAPES = (
    (1, 1), (3, 3), (64, 32), (64, 128), (64, 1), (128, 128), (128, 192), (256, 256), (255, 256), (239, 1), (799, 3),
    (113, 203), (113, 128), (128, 217), (113, 211), (108, 256), (256, 512), (384, 256), (640, 128), (512, 256),
    (1024, 1024), (1023, 1024), (1024, 1023), (2048, 2048), (4096, 4096), (4224, 4224),
)  # fmt: skip
DENSE_WIDTHS = ((64, 64), (96, 96), (128, 64), (128, 128), (192, 128), (256, 256))
PACKED_SHAPES = (
    (511, 1), (3, 513), (64, 128), (128, 128), (256, 256), (113, 203), (128, 217), (113, 211), (108, 256), (256, 512),
    (307, 256), (640, 128), (512, 256), (1024, 1024), (1023, 1024), (1024, 1023), (2048, 2048), (64, 1), (255, 256),
    (4096, 4096), (4224, 4224),
)  # fmt: skip
PACKED_WIDTHS = ((64, 64), (128, 64), (128, 128), (192, 128), (256, 256))
CACHE_SHAPES = ((1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000))
PAGE_SIZES = (1, 4, 128)
MASKS = ("dense", "causal", "local", "local right", "local left")
LENGTHS = ("random", "third", "full")
ZEROS = ((False, False), (True, False), (False, True), (True, True))

# What is tried there and attention() has no argument for, by the number of parameters' products.
SOFTCAP, SINK = "a cap on scores (softcap)", "attention sinks"
PADDED, UNPAGED = "lengths used of padded tensors (seqused)", "keys that are no whole pages (skipped there)"
UNEQUAL = "queries of unequal lengths beside a cache"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call. ``window`` is (left, right) with None for all; a side below 0 ends on the other side of the query."""

    test: str
    queries: int
    keys: int
    width: int
    value_width: int
    group: str = "mha"
    batch: int
    heads: int = HEADS
    mask: str = "dense"
    window: tuple[int | None, int | None] = (None, None)
    deterministic: bool = False
    lengths: str | None = None
    zeros: tuple[bool, bool] = (False, False)
    page: int | None = None
    unequal: bool = False
    backward: bool = True
    essential: bool = True

    @property
    def kv_heads(self) -> int:
        return GROUPS[self.group] if self.heads == HEADS else self.heads

    @property
    def name(self) -> str:
        shape = f"{self.batch}x{self.queries}x{self.keys} d={self.width}/{self.value_width}"
        options = [self.group, self.mask, self.lengths, "deterministic" if self.deterministic else None]
        options += [self.page and f"pages of {self.page}", "unequal queries" if self.unequal else None]
        zeros = "".join(side for side, zero in zip("qk", self.zeros, strict=True) if zero)
        return " ".join(word for word in (self.test, shape, *options, zeros and f"zero {zeros}") if word)


def cases() -> list[Case]:
    """All that attention() supports; essential ones first, calls of one compiled form together."""
    found = [_windowed(case) for case in (*_dense(), *_packed(), *_cached(), *_paged(), *_narrow(), *_empty())]
    masked = {"local right": 1, "local left": 1}
    return sorted(
        found,
        key=lambda case: (
            not case.essential, case.test == "dense" and masked.get(case.mask, 0), case.width, case.value_width,
            case.test, case.mask, case.group, case.deterministic,
        ),
    )  # fmt: skip


def small() -> list[Case]:
    """A few of every kind that a CPU computes in moments."""
    wanted: dict[tuple[str, str], Case] = {}
    for case in cases():
        if case.width <= 64 and case.keys <= 217 and (case.test in ("cached", "paged") or 100 <= case.queries <= 217):
            wanted.setdefault((case.test, case.mask), replace(case, batch=min(case.batch, 2)))
    return list(wanted.values())


def totals() -> dict[str, dict[str, int]]:
    """By test: how many cases there are, how many are not supported and why, and how many are like others that run."""
    dense = len(DENSE_SHAPES) * len(DENSE_WIDTHS) * len(MASKS) * len(GROUPS) * 2
    packed = len(PACKED_SHAPES) * len(PACKED_WIDTHS) * len(MASKS)
    alike = packed * len(GROUPS) * 2 * len(LENGTHS) * len(ZEROS)
    cached = len(CACHE_SHAPES) * 2 * len(GROUPS) * 4
    paged = 2 * len(PAGE_SIZES) * cached
    skipped = sum(keys % size > 0 for (_, keys), size in product(CACHE_SHAPES, PAGE_SIZES)) * 2 * 2 * len(GROUPS) * 4
    return {
        "dense": {"cases": 4 * dense, SOFTCAP: 2 * dense, SINK: dense},
        "packed": {"cases": 8 * alike, SOFTCAP: 4 * alike, PADDED: 3 * alike, "alike": alike - packed},
        "cached": {"cases": 16 * cached - paged, SINK: 8 * cached, UNEQUAL: cached},
        "paged": {"cases": paged, UNPAGED: skipped, "alike": paged - skipped - len(list(_paged()))},
        "narrow": {"cases": 12},
        "empty": {"cases": 20},
    }


def _dense() -> Iterator[Case]:
    for (shape, widths), mask, group, deterministic in product(
        product(DENSE_SHAPES, DENSE_WIDTHS), MASKS, GROUPS, (False, True)
    ):
        first = list(GROUPS)[DENSE_WIDTHS.index(widths) % 3]
        yield Case(
            test="dense", queries=shape[0], keys=shape[1], width=widths[0], value_width=widths[1], group=group,
            batch=9 if shape[1] <= 2048 else 2, mask=mask, deterministic=deterministic,
            essential=mask in ("dense", "causal", "local") and group == first and not deterministic,
        )  # fmt: skip


def _packed() -> Iterator[Case]:
    """Every shape with every width and mask once; what else is tried there takes turns."""
    for number, (widths, mask, shape) in enumerate(product(PACKED_WIDTHS, MASKS, PACKED_SHAPES)):
        queries, keys = shape[0], shape[1] if mask == "dense" else shape[0]
        zeros = ZEROS[number // 3 % 4] if mask == "dense" else (number // 3 % 2 > 0,) * 2
        yield Case(
            test="packed", queries=queries, keys=keys, width=widths[0], value_width=widths[1], zeros=zeros,
            group=list(GROUPS)[PACKED_WIDTHS.index(widths) % 3], batch=49 if queries <= 512 else 7, mask=mask,
            lengths=LENGTHS[number % 3], essential=mask in ("dense", "causal", "local"),
            deterministic=mask == "local left",
        )  # fmt: skip


def _cached() -> Iterator[Case]:
    for shape, width, group, mask in product(CACHE_SHAPES, (64, 128), GROUPS, ("dense", "causal", "local", "both")):
        yield Case(
            test="cached", queries=shape[0], keys=shape[1], width=width, value_width=width, group=group, batch=5,
            mask=mask, lengths="cache", backward=False, essential=group != "mqa" and mask != "both",
        )  # fmt: skip


def _paged() -> Iterator[Case]:
    """Every shape with every size of pages and mask once; widths, groups and queries of unequal lengths take turns."""
    number = 0
    for shape, size, mask in product(CACHE_SHAPES, PAGE_SIZES, ("dense", "causal", "local", "both")):
        if shape[1] % size:
            continue
        width = (64, 128)[number // 2 % 2]
        yield Case(
            test="paged", queries=shape[0], keys=shape[1], width=width, value_width=width, batch=5, mask=mask,
            group=list(GROUPS)[number % 3], lengths="cache", page=size, unequal=number % 2 > 0, backward=False,
        )  # fmt: skip
        number += 1


def _narrow() -> Iterator[Case]:
    for width, tokens, mask in product((8, 16, 32), (128, 2048), ("dense", "causal")):
        yield Case(
            test="narrow", queries=tokens, keys=tokens, width=width, value_width=width, batch=2, heads=2, mask=mask,
            backward=False,
        )  # fmt: skip


def _empty() -> Iterator[Case]:
    for widths, queries, mask in product(((128, 128), (192, 128)), (1, 64, 128, 256), ("dense", "causal")):
        yield Case(
            test="empty", queries=queries, keys=0, width=widths[0], value_width=widths[1], batch=4, heads=16, mask=mask,
            backward=False,
        )  # fmt: skip
    for (batch, queries), mask in product(((2, 0), (0, 64)), ("dense", "causal")):
        yield Case(
            test="empty", queries=queries, keys=4096, width=128, value_width=128, batch=batch, heads=16, mask=mask,
            backward=False,
        )  # fmt: skip


def _windowed(case: Case) -> Case:
    """With a window of random sides, the same at every run."""
    draw = random.Random(f"{case.test} {case.queries} {case.keys} {case.width} {case.mask}")
    left, right = (draw.randrange(max(1, case.keys)) for _ in range(2))
    ends = -1 if case.test == "dense" else 1
    sides: dict[str, tuple[int | None, int | None]] = {
        "dense": (None, None), "causal": (None, 0), "local": (left, right), "both": (left, 0),
        "local right": (None, ends * right), "local left": (ends * left, None),
    }  # fmt: skip
    return replace(case, window=sides[case.mask])
