"""What is computed: shapes, heads, mask and element type of one attention call."""

from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack, assert_never, get_args

import numpy as np

from attenio.elements import ElementType, checked_kv_bits, scale_words
from attenio.errors import InvalidInput
from attenio.masks import Dense, Mask, SharedPrefix, check_mask, mask_from_text
from attenio.masks.patterns import Band, Pattern, PrefixedRequests, patterns_of
from attenio.masks.patterns.lazy import lazy
from attenio.names import check_keywords, checked_kind, show_value
from attenio.quantities import as_count, checked_count, show_count
from attenio.workload.checks import check_forms, check_latent, check_reach, checked_lengths, checked_positive
from attenio.workload.direction import Direction


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
    kv_bits: int | str | None
    sinks: bool
    softcap: float | None


_DEFAULTS: WorkloadOptions = {
    "value_dim": None, "heads": 1, "kv_heads": None, "batch": 1, "mask": Dense(), "dtype": ElementType.FP16,
    "accumulator": None, "scale": None, "direction": Direction.FORWARD, "tolerance": None, "entry_bound": None,
    "values_in_keys": False, "kv_bits": None, "sinks": False, "softcap": None,
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

    ``kv_bits`` are those of an entry of keys and values, by default as many as a word of ``dtype`` has: with 8 beside
    fp16 two of them share a word, and the keys and the values of a KV head have a scale each. ``sinks``: every query
    head has a logit that takes weight and gives nothing. ``softcap``: scores s become softcap tanh(s / softcap).

    >>> Workload(n=64, d=8).key_words, Workload(n=64, d=8, kv_bits=8).key_words
    (16, 8)

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
    kv_bits: int | None = field(default=None)
    sinks: bool = field(default=False)
    softcap: float | None = field(default=None)

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
            raise InvalidInput(f"mask is {show_value(mask)}; give a mask from attenio.masks, or text such as 'causal'")
        object.__setattr__(self, "mask", chosen_mask)
        object.__setattr__(self, "dtype", ElementType.named(given["dtype"]))
        accumulator = given["accumulator"]
        object.__setattr__(self, "accumulator", None if accumulator is None else ElementType.named(accumulator))
        object.__setattr__(self, "scale", given["scale"])
        object.__setattr__(self, "direction", Direction.named(given["direction"]))
        numbers = {name: given[name] for name in ("tolerance", "entry_bound", "softcap")}
        for name, share in numbers.items():
            object.__setattr__(self, name, None if share is None else checked_positive(name, share))
        object.__setattr__(self, "values_in_keys", given["values_in_keys"])
        object.__setattr__(self, "sinks", given["sinks"])
        bits, wide = given["kv_bits"], {"d": self.d, "value_dim": self.value_dim}
        object.__setattr__(self, "kv_bits", None if bits is None else checked_kv_bits(bits, self.dtype, **wide))
        self._check()

    def _check(self) -> None:
        if self.heads % self.kv_heads:
            raise InvalidInput(
                f"{show_count(self.heads, 'query head')} cannot share {show_count(self.kv_heads, 'KV head')} evenly;"
                f" make kv_heads {'1' if self.heads == 1 else f'divide {self.heads:,}'}"
            )
        if self.accumulator is not None and self.accumulator.bytes < self.dtype.bytes:
            raise InvalidInput(
                f"accumulator {self.accumulator.value} is narrower than element type {self.dtype.value};"
                f" use {self.dtype.value} or wider"
            )
        if self.scale is not None and not isinstance(self.scale, int | float | np.number):
            raise InvalidInput(f"scale is {show_value(self.scale)}; give a number, or leave it out")
        if self.scale is not None and not (0 < abs(self.scale) < float("inf")):
            raise InvalidInput(f"scale is {self.scale}; give a finite number other than zero, or leave it out")
        self._check_direction()
        check_reach(self)
        check_mask(self.mask, queries=self.queries, keys=self.keys)

    def _check_direction(self) -> None:
        """Refuse what is planned in one direction only."""
        check_latent(self)
        check_forms(self)

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
    def entries_per_word(self) -> int:
        """Entries of keys and values that share a word."""
        return 1 if self.kv_bits is None else 8 * self.dtype.bytes // self.kv_bits

    @property
    def has_scales(self) -> bool:
        """Whether keys take fewer bits than a word, and scales with them."""
        return self.entries_per_word > 1

    @property
    def plain(self) -> "Workload":
        """The same without sinks, without a cap, and with keys of whole words."""
        if self.softcap is None and not self.sinks and self.kv_bits is None:
            return self
        return replace(self, kv_bits=None, sinks=False, softcap=None)

    @property
    def key_words(self) -> int:
        """Words of a key and its value: of one latent where values are part of keys."""
        return (self.d if self.values_in_keys else self.d + self.value_dim) // self.entries_per_word

    @property
    def held_words(self) -> int:
        """Words that stay in fast memory while the rows of a KV head pass: scales, and the sinks of its query heads.

        Backward, the sums of the gradients of these sinks stay too.
        """
        if not (self.has_scales or self.sinks):
            return 0
        scales = scale_words(self.dtype) * (1 if self.values_in_keys else 2) if self.has_scales else 0
        sums = self.accumulator_words if self.direction is Direction.BACKWARD else 0
        return scales + (self.group * (1 + sums) if self.sinks else 0)

    @property
    def once_words(self) -> int:
        """Words that move once a KV head: what stays is loaded, and the gradients of sinks are stored."""
        if self.direction is Direction.FORWARD:
            return self.held_words
        passes = 3 if self.is_training else 2  # forward, backward, and its gradients
        return passes * self.group if self.sinks else 0

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
    def heads_are_rows(self) -> bool:
        """Whether heads that share keys are more rows of one head to a gradient: all rows need all of the keys."""
        return self.group > 1 and all(bool(pattern.is_dense) for pattern, _ in self.separate_patterns)

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
        """The same workload in another direction; what was counted of its mask is taken over."""
        asked = Direction.named(direction)
        if asked is self.direction:
            return self
        other = object.__new__(Workload)
        other.__dict__.update(self.__dict__, direction=asked)
        other.__dict__.pop("compulsory_words", None)
        other._check_direction()
        return other

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

    @property
    def touched_rows(self) -> int:
        """Query rows that need a key, of all heads and the whole batch."""
        return self.heads * self.batch * sum([p.touched_rows * count for p, count in self.separate_patterns])

    @property
    def gradient_words(self) -> int:
        """Entries of dQ, dK and dV; keys of a shared prefix have a gradient for each request."""
        rows, keys = self.heads * self.batch * self.queries, self.kv_heads * self.batch * self.keys
        return rows * self.d + keys * (self.d + self.value_dim)

    @lazy
    def compulsory_words(self) -> int:
        """Words that any run moves: touched inputs read once (shared keys and prefixes once), outputs written once."""
        touched_rows, shared = self.touched_rows, isinstance(self.mask, SharedPrefix)
        patterns, times = (self.stacked_patterns, 1) if shared else (self.separate_patterns, self.batch)
        touched_keys = self.kv_heads * times * sum([p.touched_keys * count for p, count in patterns])
        read = touched_rows * self.d + touched_keys * self.key_words
        output = self.heads * self.batch * self.queries * self.value_dim
        # something that a sink is in, which nobody asks for where no score is required, and its gradient
        of_sinks = self.heads * (2 if self.scores else 1) if self.sinks else 0
        match self.direction:
            case Direction.FORWARD:
                held = self.held_words
                return read + output + (self.kv_heads * held if held and self.scores else 0)
            case Direction.BACKWARD:
                return read + touched_rows * self.value_dim + self.gradient_words + of_sinks
            case Direction.TRAINING:
                return read + touched_rows * self.value_dim + output + self.gradient_words + of_sinks
            case _:
                assert_never(self.direction)

    def __str__(self) -> str:
        length = f"n={self.queries:,}" if self.queries == self.keys else f"queries={self.queries:,} keys={self.keys:,}"
        width = f"d={self.d}" if self.d == self.value_dim else f"d={self.d} value_dim={self.value_dim}"
        width += " values in keys" if self.values_in_keys else ""
        kv = "" if self.kv_heads == self.heads else f"/{self.kv_heads:,} KV"
        width += f" kv_bits={self.kv_bits}" if self.has_scales else ""
        forms = " sinks" if self.sinks else ""
        forms += "" if self.softcap is None else f" softcap={self.softcap:g}"
        way = "" if self.direction is Direction.FORWARD else f" {self.direction.value}"
        near = "" if self.tolerance is None else f" tolerance={self.tolerance:g}"
        near += "" if self.entry_bound is None else f" entries<={self.entry_bound:g}"
        shape = f"{length} {width} heads={self.heads:,}{kv} batch={self.batch:,}"
        return f"{shape} {self.mask} {self.dtype.value}{forms}{way}{near}"


def checked_workload(value: object) -> Workload:
    """``value`` if it is a workload, or an error that says how to make one."""
    return checked_kind(value, Workload, "workload", "a Workload, such as Workload(n=4096, d=64)")
