"""Which scores are required, as values: a mask is said once and every part of attenio reads it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.masks.layouts import Layout
from attenio.quantities import checked_count, show_count, show_shape


@dataclass(frozen=True)
class Dense:
    """Every query attends to every key."""

    def __str__(self) -> str:
        return "dense"


@dataclass(frozen=True)
class Causal:
    """Each query attends to the keys up to its own position, the last query to all (bottom-right aligned)."""

    def __str__(self) -> str:
        return "causal"


@dataclass(frozen=True, kw_only=True)
class SlidingWindow:
    """The last ``width`` keys up to the query's own; without ``causal``, as many after it as before."""

    width: int
    causal: bool = True

    def __post_init__(self) -> None:
        checked_count("window", self.width)

    def __str__(self) -> str:
        return f"window:{self.width}" + ("" if self.causal else ":both")


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Sequences packed end to end that do not see each other (varlen segments)."""

    lengths: tuple[int, ...]
    key_lengths: tuple[int, ...] = ()
    causal: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple(int(v) for v in self.lengths))
        object.__setattr__(self, "key_lengths", tuple(int(v) for v in self.key_lengths) or self.lengths)
        if not self.lengths:
            raise InvalidInput("a documents mask has no document; give at least one length")
        if len(self.lengths) != len(self.key_lengths):
            raise InvalidInput(
                f"a documents mask has {len(self.lengths)} query lengths and {len(self.key_lengths)} key lengths;"
                " give one of each per document"
            )
        for length in self.lengths + self.key_lengths:
            checked_count("document length", length)

    def __str__(self) -> str:
        if len(self.lengths) > 8:
            return f"{len(self.lengths)} documents" + ("" if self.causal else ", full")
        return "documents:" + ",".join(map(str, self.lengths)) + ("" if self.causal else ":full")


@dataclass(frozen=True, kw_only=True)
class SharedPrefix:
    """The first ``length`` keys are the same for every request of the batch; queries come after them."""

    length: int
    causal: bool = True

    def __post_init__(self) -> None:
        checked_count("prefix", self.length)

    def __str__(self) -> str:
        return f"prefix:{self.length}" + ("" if self.causal else ":full")


@dataclass(frozen=True, kw_only=True)
class BlockSparse:
    """Whole blocks of scores are required or not; ``layout`` holds one row of booleans per block of queries."""

    layout: tuple[tuple[bool, ...], ...]
    query_block: int = 64
    key_block: int = 64

    def __post_init__(self) -> None:
        checked_count("query block", self.query_block)
        checked_count("key block", self.key_block)
        if not self.layout or not self.layout[0]:
            raise InvalidInput("a block-sparse layout is empty; give at least one block")
        widths = {len(row) for row in self.layout}
        if len(widths) > 1:
            raise InvalidInput(
                f"a block-sparse layout has rows of {min(widths)} to {max(widths)} blocks; make all rows equally long"
            )

    @classmethod
    def from_array(cls, layout: NDArray[Any], *, query_block: int = 64, key_block: int | None = None) -> "BlockSparse":
        """From a 2-D array of booleans or 0/1, or of additive values: 0 keeps a block and -inf drops it."""
        array = np.asarray(layout)
        if array.ndim != 2 or 0 in array.shape:
            raise InvalidInput(
                f"a block-sparse layout has shape {show_shape(array.shape)}; give a 2-D array with at least one block"
            )
        if np.issubdtype(array.dtype, np.floating):
            array = _required_of_additive(array)
        elif array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise InvalidInput("a block-sparse layout has values other than 0 and 1; give booleans")
        blocks = array.astype(np.bool_)
        blocks.setflags(write=False)
        rows = tuple(map(tuple, blocks.tolist()))
        mask = cls(layout=rows, query_block=query_block, key_block=key_block or query_block)
        object.__setattr__(mask, "array", blocks)  # as if asked for: a million blocks take long to read back
        return mask

    @classmethod
    def laid_out(cls, layout: Layout, *, queries: int, keys: int) -> "BlockSparse":
        """What a layout requires once the lengths are known."""
        return cls.from_array(layout.required(queries=queries, keys=keys), query_block=layout.block)

    @cached_property
    def array(self) -> NDArray[np.bool_]:
        """The layout as a boolean array, one entry a block; not to be written to."""
        array = np.array(self.layout, dtype=np.bool_)
        array.setflags(write=False)
        return array

    def __str__(self) -> str:
        return f"block-sparse {len(self.layout)}x{len(self.layout[0])} of {self.query_block}x{self.key_block}"


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """The blocks of a layout over these lengths: as ``BlockSparse.laid_out`` has them in tuples."""

    layout: Layout
    queries: int
    keys: int

    @property
    def query_block(self) -> int:
        """Queries of a block."""
        return self.layout.block

    @property
    def key_block(self) -> int:
        """Keys of a block."""
        return self.layout.block

    @cached_property
    def array(self) -> NDArray[np.bool_]:
        """One entry a block; not to be written to."""
        array = self.layout.required(queries=self.queries, keys=self.keys)
        array.setflags(write=False)
        return array


# A run of keys for each query.
BandMask = Dense | Causal | SlidingWindow
Mask = BandMask | Documents | SharedPrefix | BlockSparse | Layout


def _required_of_additive(values: NDArray[Any]) -> NDArray[np.bool_]:
    if np.isnan(values).any():
        raise InvalidInput("a block-sparse layout has NaN in it; use 0 to keep a block and -inf to drop it")
    if np.isposinf(values).any():
        raise InvalidInput(
            "a block-sparse layout has +inf in it, which leaves softmax undefined; use 0 to keep and -inf to drop"
        )
    if np.isneginf(values).any():
        if not np.isin(values, (0.0, -np.inf)).all():
            raise InvalidInput(
                "a finite bias in a block-sparse layout is data, not a mask; use 0 to keep and -inf to drop"
            )
        return np.asarray(values == 0.0)
    if not np.isin(values, (0.0, 1.0)).all():
        raise InvalidInput(
            "a block-sparse layout has values other than 0 and 1, or 0 and -inf; give one of these pairs, or booleans"
        )
    return np.asarray(values == 1.0)


def check_mask(mask: Mask, *, queries: int, keys: int) -> None:
    """Refuse a mask that does not suit these lengths."""
    match mask:
        case SlidingWindow(width=width) if width > keys:
            raise InvalidInput(
                f"window {width:,} is wider than the {show_count(keys, 'key')}; use a window up to {keys:,} or causal"
            )
        case Documents():
            for name, lengths, total in (("queries", mask.lengths, queries), ("keys", mask.key_lengths, keys)):
                if sum(lengths) != total:
                    raise InvalidInput(
                        f"document lengths add up to {sum(lengths):,} but there are {total:,} {name}; make them equal"
                    )
        case SharedPrefix(length=length):
            own = queries if mask.causal else 1
            most = keys - own
            instead = f"a prefix up to {most:,}" if most >= 1 else f"{length + own:,} keys or more, or another mask"
            if length >= keys:
                raise InvalidInput(f"prefix {length:,} leaves no own key of {keys:,}; use {instead}")
            if length > most:
                raise InvalidInput(
                    f"{show_count(queries, 'query')} do not fit behind a prefix of {length:,} in"
                    f" {show_count(keys, 'key')}; use at most {show_count(keys - length, 'query')}, or {instead}"
                )
        case BlockSparse():
            for name, blocks, block, total in (
                ("rows", len(mask.layout), mask.query_block, queries),
                ("columns", len(mask.layout[0]), mask.key_block, keys),
            ):
                if blocks != -(-total // block):
                    raise InvalidInput(
                        f"a block-sparse layout has {blocks:,} {name} of {block:,} for a length of {total:,};"
                        f" it needs {-(-total // block):,}"
                    )
        case Layout():
            refusal = mask.refusal(queries=queries, keys=keys)
            if refusal is not None:
                raise InvalidInput(refusal)
