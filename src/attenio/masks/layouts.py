"""Sparse layouts by name: which blocks of scores are required, as values that wait for the lengths.

>>> layout = layout_from_text("longformer:512:64")
>>> layout
Longformer(block=64, window=512, global_tokens=64)
>>> layout.required(queries=65536, keys=65536).shape
(1024, 1024)

Positions are cut into blocks of ``block`` tokens and every rule speaks of whole blocks, as the kernels of these papers
do. Queries are the last positions: with as many queries as keys, all of them. Rules that look back only are causal to
the block: scores inside a block on the diagonal are all required.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.quantities import checked_count, parse_count, show_count

BLOCK = 64
# One of each as people write it.
EXAMPLES = {
    "longformer": "longformer:512:64",
    "bigbird": "bigbird:192:128:3",
    "strided": "strided:2048",
    "fixed": "fixed:2048:128",
    "dilated": "dilated:512:4",
}
_MAY_BE_0 = ("global_tokens", "random_blocks", "seed")
# Layouts are counted block by block, so a table of them has to fit: this many along either side.
_MOST_BLOCKS = 4096


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """A rule for which blocks are required; every number but those of blocks is in tokens."""

    block: int = BLOCK

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            checked_count(name.replace("_", " "), getattr(self, name), least=0 if name in _MAY_BE_0 else 1)

    def __str__(self) -> str:
        kind = type(self).__name__.lower()
        numbers = [getattr(self, name) for name in _KINDS[kind][1]]
        return ":".join(map(str, (kind, *numbers))) + ("" if self.block == BLOCK else f":{self.block}")

    @abstractmethod
    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether block ``columns`` is required by block ``rows``, over all positions; the two broadcast."""

    @property
    @abstractmethod
    def reach(self) -> dict[str, int]:
        """Lengths that have to lie within the keys, by name."""

    def required(self, *, queries: int, keys: int) -> NDArray[np.bool_]:
        """The required blocks, one row a block of queries; InvalidInput if the layout does not suit the lengths."""
        refusal = self.refusal(queries=queries, keys=keys)
        if refusal is not None:
            raise InvalidInput(refusal)
        positions = np.arange(_parts(keys, self.block), dtype=np.int64)
        blocks = self.rule(positions[:, None], positions[None, :])
        # A block of queries has its first and last at these positions; together they may lie in two blocks of keys.
        starts = np.arange(0, queries, self.block, dtype=np.int64)
        first = starts + (keys - queries)
        last = np.minimum(starts + self.block, queries) + (keys - queries) - 1
        return np.asarray(blocks[first // self.block] | blocks[last // self.block])

    def refusal(self, *, queries: int, keys: int) -> str | None:
        """Why the layout does not suit these lengths, in one line; None if it does."""
        if queries > keys:
            told = f"{show_count(queries, 'query')} exceed the {show_count(keys, 'key')}"
            return f"{self} is over positions, and {told}; use as many keys"
        for name, length in self.reach.items():
            if length > keys:
                wider = f"{name} {length:,} of {self} is wider than the {show_count(keys, 'key')}"
                return f"{wider}; use up to {keys:,}, or dense"
        if _parts(keys, self.block) > _MOST_BLOCKS:
            return (
                f"{self} cuts {keys:,} keys into {_parts(keys, self.block):,} blocks and at most {_MOST_BLOCKS:,} are"
                f" counted; use a block of at least {_parts(keys, _MOST_BLOCKS):,}"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class Longformer(Layout):
    """A window of ``window`` tokens, half to each side, and global tokens at the start (Beltagy et al. 2020).

    Every block that holds a key of some query's window is required, so that no score of the window is missing. The
    first tokens see everything and are seen by everything.
    """

    window: int
    global_tokens: int = 0

    @property
    def reach(self) -> dict[str, int]:
        """The window and the global tokens."""
        return {"window": self.window, "global tokens": self.global_tokens}

    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Blocks within the window, and global rows and columns."""
        near = np.abs(rows - columns) <= _parts(self.window // 2, self.block)
        return np.asarray(near | _global(rows, columns, _parts(self.global_tokens, self.block)))


@dataclass(frozen=True, kw_only=True)
class BigBird(Layout):
    """A window of blocks, global blocks at the start, and blocks at random for every row (Zaheer et al. 2020).

    The window is ``window`` tokens in whole blocks around the query's own: 192 with blocks of 64 is one block to
    either side. Random blocks are drawn from those not required yet, by NumPy's default generator from ``seed``.
    """

    window: int
    global_tokens: int
    random_blocks: int
    seed: int = 0

    @property
    def reach(self) -> dict[str, int]:
        """The window, the global tokens, and the random blocks laid end to end."""
        tokens = self.random_blocks * self.block
        return {"window": self.window, "global tokens": self.global_tokens, "length of random blocks": tokens}

    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Blocks within the window, global rows and columns, and random ones."""
        near = np.abs(rows - columns) <= _parts(self.window, self.block) // 2
        blocks = near | _global(rows, columns, _parts(self.global_tokens, self.block))
        if self.random_blocks:
            # Required blocks rank last, so that the first of each row are drawn from the others.
            ranks = np.random.default_rng(self.seed).random(blocks.shape) + 2.0 * blocks
            drawn = np.argpartition(ranks, self.random_blocks - 1, axis=1)[:, : self.random_blocks]
            np.put_along_axis(blocks, drawn, True, axis=1)
        return np.asarray(blocks)

    def __str__(self) -> str:
        if self.seed:
            return f"bigbird:{self.window}:{self.global_tokens}:{self.random_blocks}:{self.block}:{self.seed}"
        return super().__str__()


@dataclass(frozen=True, kw_only=True)
class Strided(Layout):
    """The last ``stride`` tokens and every ``stride``-th block before them (Child et al. 2019, strided)."""

    stride: int

    @property
    def reach(self) -> dict[str, int]:
        """The stride."""
        return {"stride": self.stride}

    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Blocks less than a stride behind, or a multiple of it."""
        behind, stride = rows - columns, _parts(self.stride, self.block)
        return np.asarray((behind >= 0) & ((behind < stride) | (behind % stride == 0)))


@dataclass(frozen=True, kw_only=True)
class Fixed(Layout):
    """The segment of ``stride`` tokens that a query lies in, and the last ``summary`` tokens of earlier ones.

    Child et al. 2019, fixed. A summary takes at least one block.
    """

    stride: int
    summary: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.summary > self.stride:
            raise InvalidInput(f"summary {self.summary:,} is longer than the stride {self.stride:,}; use a shorter one")

    @property
    def reach(self) -> dict[str, int]:
        """The stride."""
        return {"stride": self.stride}

    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Earlier blocks of the same segment, or at the end of a segment."""
        stride, summary = _parts(self.stride, self.block), _parts(self.summary, self.block)
        same, at_end = rows // stride == columns // stride, columns % stride >= stride - summary
        return np.asarray((rows >= columns) & (same | at_end))


@dataclass(frozen=True, kw_only=True)
class Dilated(Layout):
    """A window of ``window`` tokens in whole blocks, ``dilation`` blocks from one to the next (Beltagy et al. 2020)."""

    window: int
    dilation: int

    @property
    def reach(self) -> dict[str, int]:
        """The window with its gaps."""
        return {"window": self.window, "dilated window": self.window * self.dilation}

    def rule(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Blocks at multiples of the dilation to either side."""
        away, half = np.abs(rows - columns), _parts(self.window, self.block) // 2
        return np.asarray((away % self.dilation == 0) & (away <= half * self.dilation))


_KINDS: dict[str, tuple[Callable[..., Layout], tuple[str, ...]]] = {
    "longformer": (Longformer, ("window", "global_tokens")),
    "bigbird": (BigBird, ("window", "global_tokens", "random_blocks")),
    "strided": (Strided, ("stride",)),
    "fixed": (Fixed, ("stride", "summary")),
    "dilated": (Dilated, ("window", "dilation")),
}


def layout_from_text(text: str) -> Layout | None:
    """The layout people mean by one of ``EXAMPLES``; None if it names none, or has too few or too many numbers.

    A last number may be the block, and after it, for bigbird, the seed.
    """
    kind, *numbers = text.strip().lower().split(":")
    make, names = _KINDS.get(kind, (None, ()))
    optional = ("block", "seed") if kind == "bigbird" else ("block",)
    if make is None or not len(names) <= len(numbers) <= len(names + optional):
        return None
    given = dict(zip(names + optional, numbers, strict=False))
    return make(**{name: parse_count(number, name.replace("_", " ")) for name, number in given.items()})


def _parts(length: int, size: int) -> int:
    return -(-length // size)


def _global(rows: NDArray[np.int64], columns: NDArray[np.int64], blocks: int) -> NDArray[np.bool_]:
    return np.asarray((rows < blocks) | (columns < blocks))
