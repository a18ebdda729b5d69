"""Steps out of a seed: mostly one call, sometimes several at the same time, and again and again forms seen before."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fuzz.case import Case, Layout, MaskKind, Mode, Packing

Step = tuple[Case, ...]

_LENGTHS = (1, 1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 100, 128, 200, 257, 400, 600)
_LONG = (1000, 1024, 1500, 2049, 3000)
_WIDTHS = (1, 3, 8, 16, 24, 32, 64, 64, 80, 128, 130, 192)
_HEADS = ((1, 1), (2, 2), (3, 3), (4, 4), (4, 1), (4, 2), (6, 2), (8, 1), (8, 8))
# Scores of a call that the definition can hold in float64 several times over, and that take it milliseconds.
_MOST_SCORES = {"cpu": 2**17, "cuda": 2**23}
# Every element type and width is a kernel of its own on a GPU, which takes seconds to compile: few of them for a seed.
_KINDS_ON_GPU = 2


def steps(seed: int, device: str) -> Iterator[Step]:
    """Steps without end, the same for a seed; every call has its own seed for numbers."""
    rng = random.Random(seed)
    seen: list[Case] = []
    kinds = [_kind(rng, device) for _ in range(_KINDS_ON_GPU)] if device == "cuda" else None
    while True:
        together = rng.choice((1,) * 9 + (2, 3, 4))
        step = []
        for _ in range(together):
            if seen and rng.random() < 0.3:
                case = _again(rng, rng.choice(seen[-40:]))
            else:
                case = _case(rng, device, rng.choice(kinds) if kinds else _kind(rng, device))
            seen.append(case)
            if together > 1:  # what a process has one of is not changed beside other calls
                case = replace(case, default_dtype="float32", threads=0, graph=False, times=max(2, case.times))
            step.append(case)
        yield tuple(step)


def _kind(rng: random.Random, device: str) -> tuple[str, int, int]:
    """Element type and widths."""
    if device == "cuda":
        d = rng.choice((64, 64, 128, 128, 96, 40, 192))
        return rng.choice(("bfloat16", "bfloat16", "float16", "float32")), d, rng.choice((d, d, d, 64))
    d = rng.choice(_WIDTHS)
    return rng.choice(("float32", "float32", "float16", "bfloat16", "float64")), d, rng.choice((d, rng.choice(_WIDTHS)))


def _again(rng: random.Random, case: Case) -> Case:
    """The same form with other numbers, or with another surrounding."""
    case = replace(case, seed=rng.randrange(2**31), times=rng.choice((1, 2, 6)))
    if rng.random() < 0.3 and case.mode is not Mode.AUTOCAST:
        mode = rng.choice((Mode.GRADIENTS, Mode.NO_GRAD, Mode.INFERENCE, Mode.PLAIN))
        return replace(case, mode=mode, graph=False)
    return case


def _case(rng: random.Random, device: str, kind: tuple[str, int, int]) -> Case:
    dtype, d, width = kind
    heads, kv_heads = rng.choice(_HEADS)
    batch = rng.choice((1, 1, 2, 3, 5))
    lengths = _LENGTHS + (_LONG if device == "cuda" else ())
    queries = rng.choice(lengths)
    keys = queries if rng.random() < 0.6 else rng.choice(lengths)
    while batch * heads * queries * keys > _MOST_SCORES[device]:
        queries, keys = -(-queries // 2), -(-keys // 2)
    same = width == d and rng.random() < 0.1
    shape: dict[str, Any] = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": queries, "keys": keys}
    case = Case(
        seed=rng.randrange(2**31), dtype=dtype, d=d, width=width, same=same, **shape,
        enable_gqa=heads != kv_heads and (kv_heads > 1 or rng.random() < 0.7),
        layouts=tuple(rng.choice((Layout.PLAIN, rng.choice(tuple(Layout)))) for _ in range(4)),
        dims=rng.choice((4, 4, 4, 5, 3 if batch == 1 else 4, 2 if batch == heads == 1 else 4)),
        scale=rng.choice((None, None, None, 0.3, -0.2, 0.0)), spread=rng.choice((1.0, 1.0, 1.0, 0.1, 8.0, 40.0)),
        deterministic=rng.random() < 0.1, times=rng.choice((1, 1, 2, 3)),
        softcap=rng.choice((None,) * 6 + (1.5, 30.0)), sinks=rng.random() < 0.2,
    )  # fmt: skip
    return replace(case, **_restrictions(rng, case), **_surroundings(rng, device, dtype))


def _restrictions(rng: random.Random, case: Case) -> dict[str, Any]:
    """Usually at most one kind, sometimes several at once: they hold together."""
    restrictions: dict[str, Any] = {}
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        match rng.randrange(7):
            case 0 | 1:
                restrictions["is_causal"] = True
            case 2:
                sides = (rng.choice((-1, 0, 3, 40)), rng.choice((-1, 0, 3, 40)))
                restrictions["window"] = rng.choice((1, 4, 64, sides))
            case 3:
                restrictions["packing"] = rng.choice((Packing.LENGTHS, Packing.IDS))
            case 4:
                restrictions["blocks"] = rng.choice(((16, 16), (64, 64), (7, 13)))
            case 5:
                kinds = (
                    MaskKind.BOOLEAN,
                    MaskKind.FLOAT,
                    MaskKind.SINGLE if case.dtype != "float64" else MaskKind.FLOAT,
                )
                restrictions |= {
                    "mask": rng.choice(kinds),
                    "mask_sizes": rng.choice(("qk", "k", "hqk", "bqk", "bhqk", "bk", "q")),
                }
            case _:
                restrictions["prefix"] = rng.randrange(case.keys + 1)
    if restrictions.get("packing") is Packing.LENGTHS:  # a row of cumulative lengths is one for all sequences
        restrictions.pop("prefix", None)
    return restrictions


def _surroundings(rng: random.Random, device: str, dtype: str) -> dict[str, Any]:
    mode = rng.choice((Mode.GRADIENTS,) * 5 + tuple(Mode))
    if dtype != "float32" and mode in (Mode.AUTOCAST, Mode.AUTOCAST_INFERENCE):
        mode = Mode.GRADIENTS
    on_gpu = device == "cuda"
    return {
        "mode": mode,
        "wanted": rng.choice(("qkv", "qkv", "qkv", "qkvm", "q", "kv", "v")),
        "made_inside": rng.random() < 0.5,
        "default_dtype": rng.choice(("float32",) * 6 + ("float64", "bfloat16")),
        "meta": rng.random() < 0.1,
        "threads": rng.choice((1, 1, 1, 2, 3)),
        "stream": on_gpu and rng.random() < 0.3,
        "graph": on_gpu and rng.random() < 0.15,
    }
