"""Arrays of one attention call, checked: what a certificate is made from."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.quantities import show_shape

Array = NDArray[np.generic]
Float32 = NDArray[np.float32]

_TYPES = {
    "float16": ElementType.FP16,
    "float32": ElementType.FP32,
    "float64": ElementType.FP32,
    "bfloat16": ElementType.BF16,
    "float8_e4m3fn": ElementType.FP8,
}


def element_type_of(array: Array) -> ElementType:
    """The element type that an array holds; float64 counts as fp32, to which it is rounded."""
    element = _TYPES.get(array.dtype.name)
    if element is None:
        known = ", ".join(_TYPES)
        raise InvalidInput(f"arrays hold {array.dtype.name}; give floating-point arrays, one of {known}")
    return element


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """One KV head of one sequence: the rows of all queries that share it, its keys and its values, in float32."""

    batch: int
    kv_head: int
    queries: Float32  # (group * rows, d): the query heads one after the other
    keys: Float32
    values: Float32
    rows: int  # queries of one head
    scale: float
    causal: bool

    @property
    def d(self) -> int:
        """Width of queries and keys."""
        return int(self.keys.shape[1])

    def last_key(self, start: int, stop: int) -> NDArray[np.intp]:
        """The last key that each of these stacked rows may see (-1 where none); all keys unless causal."""
        keys = len(self.keys)
        if not self.causal:
            return np.full(stop - start, keys - 1, dtype=np.intp)
        position = np.arange(start, stop, dtype=np.intp) % self.rows
        return np.maximum(position + (keys - self.rows), -1)

    def fingerprint(self, centre: Float32) -> str:
        """What other data, or another scale, mask or centre of the keys, do not share."""
        arrays = (self.queries, self.keys, self.values, np.ravel(centre))
        seen = hashlib.blake2b(digest_size=16)
        seen.update(repr((self.rows, float(self.scale), self.causal, [array.shape for array in arrays])).encode())
        for array in arrays:
            seen.update(np.ascontiguousarray(array, dtype="<f4").tobytes())
        return seen.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionData:
    """Queries, keys and values as (batch, heads, rows, width) arrays of one element type, all finite.

    >>> ones = np.ones((4, 2), dtype=np.float32)
    >>> AttentionData.of(ones, ones, ones).query.shape
    (1, 1, 4, 2)
    """

    query: Float32
    key: Float32
    value: Float32
    dtype: ElementType
    scale: float
    causal: bool

    @classmethod
    def of(
        cls, query: Array, key: Array, value: Array, *, scale: float | None = None, causal: bool = False
    ) -> "AttentionData":
        """Arrays of (rows, width), (heads, rows, width) or (batch, heads, rows, width); keys may have fewer heads."""
        named = {"query": np.asarray(query), "key": np.asarray(key), "value": np.asarray(value)}
        types = {name: element_type_of(array) for name, array in named.items()}
        if len(set(types.values())) > 1:
            held = ", ".join(f"{name} {kind.value}" for name, kind in types.items())
            raise InvalidInput(f"arrays hold different element types ({held}); convert them to one")
        for name, array in named.items():
            _check_shape(name, array)
        lifted = {name: array[(None,) * (4 - array.ndim)] for name, array in named.items()}
        _check_together(**{name: array.shape for name, array in lifted.items()})
        rounded = {name: _rounded(name, array) for name, array in lifted.items()}
        chosen = lifted["query"].shape[-1] ** -0.5 if scale is None else float(scale)
        if not 0 < abs(chosen) < math.inf:
            raise InvalidInput(f"scale is {chosen}; give a finite number other than zero, or leave it out")
        if abs(chosen) > float(np.finfo(np.float32).max):
            raise InvalidInput(f"scale is {chosen:g}, which is too large for fp32; give a smaller one, or leave it out")
        return cls(**rounded, dtype=types["query"], scale=chosen, causal=causal)

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return int(self.query.shape[1] // self.key.shape[1])

    def heads(self) -> Iterator[Head]:
        """Every KV head of every sequence, with the queries that share it."""
        for batch in range(self.key.shape[0]):
            for kv_head in range(self.key.shape[1]):
                shared = self.query[batch, kv_head * self.group : (kv_head + 1) * self.group]
                yield Head(
                    batch=batch,
                    kv_head=kv_head,
                    queries=shared.reshape(-1, shared.shape[-1]),
                    keys=self.key[batch, kv_head],
                    values=self.value[batch, kv_head],
                    rows=int(self.query.shape[2]),
                    scale=self.scale,
                    causal=self.causal,
                )


def _check_shape(name: str, array: Array) -> None:
    if not 2 <= array.ndim <= 4:
        raise InvalidInput(
            f"{name} has {array.ndim} axes; give (rows, width), (heads, rows, width) or (batch, heads, rows, width)"
        )
    if array.size == 0:
        raise InvalidInput(f"{name} is empty, of shape {show_shape(array.shape)}; give at least one row of one entry")


def _check_together(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> None:
    shapes = f"query {query}, key {key}, value {value}"
    if len({query[0], key[0], value[0]}) > 1:
        raise InvalidInput(f"batches differ: {shapes}; give as many sequences in each")
    if key[1] != value[1] or query[1] % key[1]:
        raise InvalidInput(f"heads do not match: {shapes}; key and value need as many, dividing those of query")
    if key[2] != value[2]:
        raise InvalidInput(f"key has {key[2]:,} rows and value {value[2]:,}; give one value for each key")
    if query[3] != key[3]:
        raise InvalidInput(f"query is {query[3]:,} wide and key {key[3]:,}; make them equal")


def _rounded(name: str, array: Array) -> Float32:
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array.astype(np.float32))
    finite = np.isfinite(single)
    if not finite.all():
        wrong = np.argwhere(~finite)
        first = tuple(int(i) for i in wrong[0])
        what = "too large for fp32" if np.isfinite(np.float64(array[first])) else "not finite"
        raise InvalidInput(
            f"{name} has {len(wrong):,} entries that are {what}, the first at {first} of {show_shape(array.shape)}"
            f" ({array[first]}); remove them"
        )
    return single
