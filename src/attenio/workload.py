"""What is computed: shapes, heads, mask and element type of one attention call."""

from dataclasses import dataclass, field, replace
from enum import Enum
from math import floor, log10
from typing import TypedDict, Unpack, assert_never, get_args

import numpy as np

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Dense, Mask, SharedPrefix, check_mask, mask_from_text
from attenio.masks.patterns import Band, Pattern, PrefixedRequests, patterns_of
from attenio.masks.patterns.lazy import lazy
from attenio.names import check_keywords, checked_kind, member_named
from attenio.quantities import as_count, checked_count


class Direction(Enum):
    """Which way data flows through attention."""

    FORWARD = "forward"  # O from Q, K, V
    BACKWARD = "backward"  # dQ, dK, dV from dO, with O and the log-sum-exp of every row at hand
    TRAINING = "training"  # one after the other: a training step

    @classmethod
    def named(cls, name: "str | Direction") -> "Direction":
        """The direction with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "direction")


def checked_lengths(n: int | str | None, queries: int | str | None, keys: int | str | None) -> dict[str, int]:
    """Both lengths, ``n`` standing for one that is not given; an ``n`` that the two given ones contradict is refused.

    >>> checked_lengths(8, 1, None)
    {'queries': 1, 'keys': 8}
    """
    both = None if n is None else checked_count("n", as_count("n", n))
    lengths = {}
    for name, given in (("queries", queries), ("keys", keys)):
        value = both if given is None else as_count(name, given)
        if value is None:
            raise InvalidInput(f"{name} is not given; set n for both lengths, or queries and keys")
        lengths[name] = checked_count(name, value)
    if both is not None and queries is not None and keys is not None and set(lengths.values()) != {both}:
        raise InvalidInput(
            f"n is {both:,} but queries is {lengths['queries']:,} and keys is {lengths['keys']:,}; leave n out and give"
            f" queries and keys, queries={both}, keys={both} for both"
        )
    return lengths


class WorkloadOptions(TypedDict, total=False):
    """What a workload may say besides its lengths and ``d``."""

    value_dim: int | str | None
    heads: int | str
    kv_heads: int | str | None
    batch: int | str
    mask: Mask | str
    dtype: ElementType | str
    accumulator: ElementType | str | None
    scale: float | None
    direction: Direction | str
    tolerance: float | None
    entry_bound: float | None
    values_in_keys: bool


_DEFAULTS: WorkloadOptions = {
    "value_dim": None, "heads": 1, "kv_heads": None, "batch": 1, "mask": Dense(), "dtype": ElementType.FP16,
    "accumulator": None, "scale": None, "direction": Direction.FORWARD, "tolerance": None, "entry_bound": None,
    "values_in_keys": False,
}  # fmt: skip


@dataclass(frozen=True, init=False)
class Workload:
    """One attention call: softmax(Q K^T * scale) V over heads and batch, with only the required scores.

    >>> Workload(n=4096, d=128, heads=32, kv_heads=8, mask="causal").group
    4
    >>> Workload(queries=1, keys=8192, d=64).is_decode
    True

    Sizes may be text, as on the command line: ``Workload(n="128K", d=64)``.

    ``n`` sets each length that is not given. ``accumulator=None`` is the theory's word model: every value takes one
    word, and sums are kept in single precision. Naming an accumulator makes it physical: an fp32 sum beside fp16
    elements takes two words.

    ``dataclasses.replace`` changes what is named and keeps the rest, ``value_dim`` beside a new ``d`` and ``kv_heads``
    beside new ``heads``; None makes them follow again.

    >>> replace(Workload(n=64, d=8), d=16).value_dim, replace(Workload(n=64, d=8), d=16, value_dim=None).value_dim
    (8, 16)

    ``direction`` asks about the gradient instead, or about both. The gradient of keys and values is that of each
    sequence of the batch, also where a prefix of them is shared.

    ``values_in_keys`` says that values are the first ``value_dim`` columns of the keys: one latent, as DeepSeek decodes
    with. Whoever holds a key then has its value.

    ``tolerance`` admits approximate attention: outputs may be off by that share of half the spread of their column of
    values. ``entry_bound`` states that no entry of queries and keys is larger, which is what makes it provable. With a
    tolerance, the gradient is that of the function computed. Without one, attention is exact.
    """

    queries: int
    keys: int
    d: int
    value_dim: int
    heads: int
    kv_heads: int
    batch: int
    mask: Mask
    dtype: ElementType
    accumulator: ElementType | None = field(default=None)
    scale: float | None = field(default=None)
    direction: Direction = field(default=Direction.FORWARD)
    tolerance: float | None = field(default=None)
    entry_bound: float | None = field(default=None)
    values_in_keys: bool = field(default=False)

    def __init__(
        self,
        *,
        n: int | str | None = None,
        queries: int | str | None = None,
        keys: int | str | None = None,
        d: int | str,
        **options: Unpack[WorkloadOptions],
    ) -> None:
        check_keywords("Workload", options, WorkloadOptions)
        given: WorkloadOptions = {**_DEFAULTS, **options}
        for name, value in checked_lengths(n, queries, keys).items():
            object.__setattr__(self, name, value)
        value_dim, heads, kv_heads = given["value_dim"], given["heads"], given["kv_heads"]
        widths: dict[str, int | str] = {"d": d, "value_dim": d if value_dim is None else value_dim}
        for name, size in widths.items():
            object.__setattr__(self, name, checked_count(name, as_count(name, size), most=2**16))
        counts: dict[str, int | str] = {
            "heads": heads,
            "kv_heads": heads if kv_heads is None else kv_heads,
            "batch": given["batch"],
        }
        for name, size in counts.items():
            object.__setattr__(self, name, checked_count(name, as_count(name, size), most=2**20))
        mask = given["mask"]
        chosen_mask = mask_from_text(mask) if isinstance(mask, str) else mask
        if not isinstance(chosen_mask, get_args(Mask)):
            raise InvalidInput(f"mask is {mask!r}; give a mask from attenio.masks, or text such as 'causal'")
        object.__setattr__(self, "mask", chosen_mask)
        object.__setattr__(self, "dtype", ElementType.named(given["dtype"]))
        accumulator = given["accumulator"]
        object.__setattr__(self, "accumulator", None if accumulator is None else ElementType.named(accumulator))
        object.__setattr__(self, "scale", given["scale"])
        object.__setattr__(self, "direction", Direction.named(given["direction"]))
        for name, share in (("tolerance", given["tolerance"]), ("entry_bound", given["entry_bound"])):
            object.__setattr__(self, name, None if share is None else _checked_positive(name, share))
        object.__setattr__(self, "values_in_keys", given["values_in_keys"])
        self._check()

    def _check(self) -> None:
        if self.heads % self.kv_heads:
            raise InvalidInput(
                f"{self.heads} query heads cannot share {self.kv_heads} KV heads evenly;"
                f" make kv_heads divide {self.heads}"
            )
        if self.accumulator is not None and self.accumulator.bytes < self.dtype.bytes:
            raise InvalidInput(
                f"accumulator {self.accumulator.value} is narrower than element type {self.dtype.value};"
                f" use {self.dtype.value} or wider"
            )
        if self.scale is not None and not isinstance(self.scale, int | float | np.number):
            raise InvalidInput(f"scale is {self.scale!r}; give a number, or leave it out")
        if self.scale is not None and not (0 < abs(self.scale) < float("inf")):
            raise InvalidInput(f"scale is {self.scale}; give a finite number other than zero, or leave it out")
        _check_latent(self)
        _check_reach(self)
        check_mask(self.mask, queries=self.queries, keys=self.keys)

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads

    @property
    def is_decode(self) -> bool:
        """Whether one query per sequence is asked about."""
        return self.queries == 1

    @property
    def is_training(self) -> bool:
        """Whether a whole training step is asked about."""
        return self.direction is Direction.TRAINING

    @property
    def key_words(self) -> int:
        """Words of a key and its value: of one latent where values are part of keys."""
        return self.d if self.values_in_keys else self.d + self.value_dim

    @property
    def softmax_scale(self) -> float:
        """The factor on scores: the one given, or 1/sqrt(d)."""
        return self.scale if self.scale is not None else float(self.d) ** -0.5

    @property
    def accumulator_words(self) -> int:
        """Words that one accumulated value takes in memory."""
        return 1 if self.accumulator is None else self.accumulator.bytes // self.dtype.bytes

    @lazy
    def separate_patterns(self) -> tuple[tuple[Pattern, int], ...]:
        """Patterns of one query head of one sequence, each with how many times it occurs there (documents repeat)."""
        return patterns_of(self.mask, queries=self.queries, keys=self.keys)

    @lazy
    def stacked_patterns(self) -> tuple[tuple[Pattern, int], ...]:
        """Patterns when requests with a shared prefix are stacked, each with how many times it occurs per KV head."""
        if isinstance(self.mask, SharedPrefix):
            make = Band.causal if self.mask.causal else Band.dense
            own = make(self.queries, self.keys - self.mask.length)
            return ((PrefixedRequests(requests=self.batch, prefix=self.mask.length, own=own), 1),)
        return tuple((pattern, count * self.batch) for pattern, count in self.separate_patterns)

    @lazy
    def scores(self) -> int:
        """Required scores over all heads and the whole batch (Z)."""
        return self.batch * self.heads * sum(pattern.scores * count for pattern, count in self.separate_patterns)

    def towards(self, direction: Direction | str) -> "Workload":
        """The same workload in another direction."""
        return replace(self, direction=Direction.named(direction))

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products over the required scores: two forward, five backward."""
        forward, backward = (
            2 * self.scores * (self.d + self.value_dim),
            2 * self.scores * (3 * self.d + 2 * self.value_dim),
        )
        match self.direction:
            case Direction.FORWARD:
                return forward
            case Direction.BACKWARD:
                return backward
            case Direction.TRAINING:
                return forward + backward
            case _:
                assert_never(self.direction)

    @lazy
    def compulsory_words(self) -> int:
        """Words that any run moves: touched inputs read once (shared keys and prefixes once), outputs written once."""
        touched_rows = self.heads * self.batch * sum(p.touched_rows * count for p, count in self.separate_patterns)
        touched_keys = self.kv_heads * sum(p.touched_keys * count for p, count in self.stacked_patterns)
        rows, keys = self.heads * self.batch * self.queries, self.kv_heads * self.batch * self.keys
        read = touched_rows * self.d + touched_keys * self.key_words
        output, gradients = rows * self.value_dim, rows * self.d + keys * (self.d + self.value_dim)
        match self.direction:
            case Direction.FORWARD:
                return read + output
            case Direction.BACKWARD:
                return read + touched_rows * self.value_dim + gradients
            case Direction.TRAINING:
                return read + touched_rows * self.value_dim + output + gradients
            case _:
                assert_never(self.direction)

    def __str__(self) -> str:
        length = f"n={self.queries:,}" if self.queries == self.keys else f"queries={self.queries:,} keys={self.keys:,}"
        width = f"d={self.d}" if self.d == self.value_dim else f"d={self.d} value_dim={self.value_dim}"
        width += " values in keys" if self.values_in_keys else ""
        kv = "" if self.kv_heads == self.heads else f"/{self.kv_heads:,} KV"
        way = "" if self.direction is Direction.FORWARD else f" {self.direction.value}"
        near = "" if self.tolerance is None else f" tolerance={self.tolerance:g}"
        near += "" if self.entry_bound is None else f" entries<={self.entry_bound:g}"
        return (
            f"{length} {width} heads={self.heads:,}{kv} batch={self.batch:,} {self.mask} {self.dtype.value}{way}{near}"
        )


_LARGEST_REACH = 1e300
_EXAMPLES = {
    "tolerance": "0.01, or leave it out for exact attention",
    "entry_bound": "0.5: no entry of queries and keys is larger",
}


def checked_workload(value: object) -> Workload:
    """``value`` if it is a workload, or an error that says how to make one."""
    return checked_kind(value, Workload, "workload", "a Workload, such as Workload(n=4096, d=64)")


def _checked_positive(name: str, value: float) -> float:
    known = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not known or not (0 < value < float("inf")):
        raise InvalidInput(f"{name} is {value!r}; give a finite number above 0, such as {_EXAMPLES[name]}")
    return float(value)


def _check_latent(workload: Workload) -> None:
    if not isinstance(workload.values_in_keys, bool):
        raise InvalidInput(f"values_in_keys is {workload.values_in_keys!r}; give True or False")
    if not workload.values_in_keys:
        return
    if workload.value_dim > workload.d:
        raise InvalidInput(
            f"values in keys are {workload.value_dim:,} wide and keys {workload.d:,}; use a value_dim up to"
            f" {workload.d:,}, or values_in_keys=False"
        )
    if workload.direction is not Direction.FORWARD:
        raise InvalidInput(
            f"values in keys are planned forward only, and this is {workload.direction.value}; set values_in_keys=False"
            " to ask about separate keys and values, or leave --decode out"
        )
    if workload.tolerance is not None:
        raise InvalidInput(
            "values in keys are planned for exact attention only; leave the tolerance out, or set values_in_keys=False"
        )


def _check_reach(workload: Workload) -> None:
    """Refuse entries so large that scores might leave the range of numbers."""
    bound, factor = workload.entry_bound, workload.d * abs(float(workload.softmax_scale))
    if bound is not None and not bound * bound * factor < _LARGEST_REACH:
        most = 10.0 ** floor((log10(_LARGEST_REACH) - log10(factor)) / 2 - 1e-9)
        raise InvalidInput(
            f"entry_bound is {bound:g} (--entry-bound), with which scores may overflow; give at most {most:g}"
        )
