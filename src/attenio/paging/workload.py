"""What is computed on pages: requests, where their keys lie, how many bits these take, and what is done to scores."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import index
from typing import Any

import numpy as np

from attenio.elements import ElementType, checked_kv_bits, scale_words
from attenio.errors import InvalidInput
from attenio.names import checked_kind, show_value
from attenio.page_tree import Integers, PageShape, misplaced_page
from attenio.quantities import as_count, checked_count, show_count

_MOST, _MOST_PAGES = 2**20, 2**24
_MOST_NUMBER = 2**62
_LARGEST = 1e30
# As wide as keys, as many as query heads, as many bits as a word.
# No number, so that none which is typed is taken for it.
NOT_GIVEN: Any = None

Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PagedWorkload:
    """Requests whose keys lie in pages: ``new`` tokens of each attend to its ``lengths`` keys, theirs the last of them.

    ``table`` has the pages of each request, in order; requests whose tables begin alike share these pages. Without one,
    nobody shares. A new token sees the keys up to its own. A key takes ``kv_bits`` an entry, by default as many as a
    word of ``dtype``; with fewer, keys and values of a page and KV head have a scale each. ``sinks``: a logit a head.
    ``softcap``: scores s become softcap tanh(s / softcap). ``values_in_keys``: values are the first columns of keys.

    >>> PagedWorkload(lengths=(100, 30), page_size=16, d=8, kv_bits=8).key_words
    8
    """

    lengths: tuple[int, ...]
    page_size: int
    d: int
    table: Table = ()
    new: tuple[int, ...] = ()
    value_dim: int = NOT_GIVEN
    heads: int = 1
    kv_heads: int = NOT_GIVEN
    dtype: ElementType = ElementType.FP16
    kv_bits: int = NOT_GIVEN
    accumulator: ElementType | None = None
    scale: float | None = None
    sinks: bool = False
    softcap: float | None = None
    values_in_keys: bool = False

    def __post_init__(self) -> None:
        self._set("lengths", _counts("lengths", self.lengths))
        requests = len(self.lengths)
        self._set("new", (1,) * requests if self.new == () else _counts("new", self.new))
        self._set("new", self.new * requests if len(self.new) == 1 else self.new)
        for name, other in (("value_dim", self.d), ("kv_heads", self.heads)):
            self._set(name, other if getattr(self, name) is NOT_GIVEN else getattr(self, name))
        for name in ("page_size", "d", "value_dim", "heads", "kv_heads"):
            self._set(name, checked_count(name, as_count(name, getattr(self, name)), most=_MOST))
        self._set("dtype", ElementType.named(self.dtype))
        self._set("accumulator", None if self.accumulator is None else ElementType.named(self.accumulator))
        bits = self.word_bits if self.kv_bits is NOT_GIVEN else self.kv_bits
        self._set("kv_bits", checked_kv_bits(bits, self.dtype, d=self.d, value_dim=self.value_dim))
        self._set("table", _apart(self.lengths, self.page_size) if self.table == () else _rows(self.table))
        self._check()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def of_levels(
        cls, levels: tuple[tuple[int, int], ...], *, own: int, page_size: int, **rest: Any
    ) -> "PagedWorkload":
        """A tree of equal branches: each level has keys that so many requests share, the last ``own`` keys nobody.

        >>> PagedWorkload.of_levels(((64, 4), (32, 2)), own=16, page_size=16, d=8).table
        ((0, 1, 2, 3, 4, 5, 8), (0, 1, 2, 3, 4, 5, 9), (0, 1, 2, 3, 6, 7, 10), (0, 1, 2, 3, 6, 7, 11))
        """
        requests = checked_count("requests", levels[0][1], most=_MOST) if levels else 1
        own = checked_count("own", as_count("own", own), least=0)
        lengths = (sum(keys for keys, _ in levels) + own,) * requests
        _check_pages(lengths, page_size)
        tables: list[list[int]] = [[] for _ in range(requests)]
        used, before = 0, requests
        for keys, sharing in levels:
            if keys % page_size or keys < 1 or sharing < 1 or before % sharing:
                raise InvalidInput(
                    f"{show_count(keys, 'key')} that {sharing:,} of {show_count(before, 'request')} share are"
                    " no tree; give whole pages of"
                    f" {show_count(page_size, 'key')}, and numbers of requests that divide each other"
                )
            for first in range(0, requests, sharing):
                pages = range(used, used + keys // page_size)
                used += len(pages)
                for row in tables[first : first + sharing]:
                    row.extend(pages)
            before = sharing
        mine = -(-own // page_size)
        for number, row in enumerate(tables):
            row.extend(range(used + number * mine, used + (number + 1) * mine))
        table = tuple(tuple(row) for row in tables)
        return cls(lengths=lengths, page_size=page_size, table=table, **rest)

    @classmethod
    def of_prefix(cls, prefix: int, *, lengths: tuple[int, ...], page_size: int, **rest: Any) -> "PagedWorkload":
        """Requests of any lengths whose first ``prefix`` keys are the same pages; with 0 nobody shares.

        >>> PagedWorkload.of_prefix(32, lengths=(40, 64), page_size=16, d=8).table
        ((0, 1, 2), (0, 1, 3, 4))
        """
        _check_pages(lengths, page_size)
        prefix = checked_count("shared prefix", as_count("shared prefix", prefix), least=0)
        if prefix % page_size or prefix > min(lengths):
            raise InvalidInput(
                f"a shared prefix of {show_count(prefix, 'key')} is not whole pages of {page_size:,} that all"
                " requests have;"
                f" give a multiple of {page_size:,}, up to {min(lengths) // page_size * page_size:,}"
            )
        shared, rows, used = tuple(range(prefix // page_size)), [], prefix // page_size
        for length in lengths:
            own = -(-(length - prefix) // page_size)
            rows.append((*shared, *range(used, used + own)))
            used += own
        return cls(lengths=lengths, page_size=page_size, table=tuple(rows), **rest)

    def _check(self) -> None:
        if len(self.new) != len(self.lengths) or any(n > m for n, m in zip(self.new, self.lengths, strict=True)):
            new, lengths = (show_value(each if len(each) > 1 else each[0]) for each in (self.new, self.lengths))
            raise InvalidInput(f"new is {new} for lengths {lengths}; give as many, none above its length")
        if self.heads % self.kv_heads:
            heads, of_keys = show_count(self.heads, "query head"), show_count(self.kv_heads, "KV head")
            raise InvalidInput(f"{heads} cannot share {of_keys} evenly; make kv_heads divide {self.heads:,}")
        for name in ("softcap", "scale"):
            number = getattr(self, name)
            known = isinstance(number, int | float | np.number) and not isinstance(number, bool)
            if number is not None and not (known and 0 < number < _LARGEST):
                raise InvalidInput(f"{name} is {show_value(number)}; give a number above 0, or leave it out")
        for name in ("sinks", "values_in_keys"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} is {show_value(getattr(self, name))}; give True or False")
        if self.values_in_keys and self.value_dim > self.d:
            raise InvalidInput(f"values in keys are {self.value_dim} wide and keys {self.d}; use at most {self.d}")
        self._check_table()

    def _check_table(self) -> None:
        if len(self.table) != len(self.lengths):
            raise InvalidInput(f"the table has {len(self.table)} rows for {len(self.lengths)} requests; give one each")
        short = np.flatnonzero(_lengths_of(self.table) < self.begun)
        if len(short):
            number = int(short[0])
            raise InvalidInput(
                f"request {number} has {len(self.table[number])} pages for"
                f" {show_count(self.lengths[number], 'key')}; give it {self.begun[number]} of {self.page_size}"
            )
        for number, row in enumerate(self.table):
            for page in (min(row), max(row)):
                if not 0 <= page < _MOST_NUMBER:
                    raise InvalidInput(
                        f"request {number} has page {page:,}; pages are numbered from 0 up to {_MOST_NUMBER - 1:,}"
                    )
        wrong = misplaced_page(self.places, self.begun)
        if wrong is not None:
            page, one, other = wrong
            raise InvalidInput(
                f"page {page} is at place {one[1]} of request {one[0]} and at place {other[1]} of request {other[0]};"
                " a page that is shared is at the same place of all"
            )

    @cached_property
    def begun(self) -> Integers:
        """Pages of each request that hold a key of it."""
        return -(-np.asarray(self.lengths, dtype=np.int64) // self.page_size)

    @cached_property
    def places(self) -> Integers:
        """The table as an array, as wide as the longest request needs."""
        table = np.full((len(self.lengths), int(self.begun.max())), -1, dtype=np.int64)
        rows = (row[:begun] for row, begun in zip(self.table, self.begun.tolist(), strict=True))
        held = np.arange(table.shape[1], dtype=np.int64) < self.begun[:, None]
        table[held] = np.fromiter(chain.from_iterable(rows), np.int64, count=int(self.begun.sum()))
        return table

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.heads // self.kv_heads

    @property
    def word_bits(self) -> int:
        """Bits of a word: of an entry of queries and outputs."""
        return 8 * self.dtype.bytes

    @property
    def per_word(self) -> int:
        """Entries of keys and values that share a word."""
        return self.word_bits // self.kv_bits

    @property
    def has_scales(self) -> bool:
        """Whether keys take fewer bits than a word, and scales with them."""
        return self.kv_bits < self.word_bits

    @property
    def key_words(self) -> int:
        """Words of a key and its value, or of a latent."""
        return (self.d if self.values_in_keys else self.d + self.value_dim) // self.per_word

    @property
    def scale_words(self) -> int:
        """Words of the scales of a page and KV head: of keys and of values, or of a latent."""
        each = scale_words(self.dtype) if self.has_scales else 0
        return each if self.values_in_keys else 2 * each

    @property
    def shape(self) -> PageShape:
        """What the words of its pages depend on."""
        names = ("page_size", "heads", "kv_heads", "d", "value_dim", "key_words", "scale_words", "accumulator_words")
        return PageShape(**{name: getattr(self, name) for name in names})

    @property
    def accumulator_words(self) -> int:
        """Words that one accumulated value takes in memory."""
        return 1 if self.accumulator is None else self.accumulator.bytes // self.dtype.bytes

    @property
    def softmax_scale(self) -> float:
        """The factor on scores: the one given, or 1/sqrt(d)."""
        return float(self.d) ** -0.5 if self.scale is None else self.scale

    @cached_property
    def distinct(self) -> tuple[int, int]:
        """Pages that are read by somebody, and keys that lie in them: each counted once."""
        requests, places = np.nonzero(self.places >= 0)
        keys = np.minimum(self.page_size, np.asarray(self.lengths, dtype=np.int64)[requests] - places * self.page_size)
        pages, which = np.unique(self.places[requests, places], return_inverse=True)
        most = np.zeros(len(pages), dtype=np.int64)
        np.maximum.at(most, which, keys)
        return len(pages), int(most.sum())

    @cached_property
    def scores(self) -> int:
        """Required scores of all heads."""
        each = zip(self.new, self.lengths, strict=True)
        return self.heads * sum(n * (m - n) + n * (n + 1) // 2 for n, m in each)

    @property
    def compulsory_words(self) -> int:
        """Words that any run moves: every key that is there once, queries, sinks, and outputs."""
        pages, keys = self.distinct
        read = self.kv_heads * (keys * self.key_words + pages * self.scale_words)
        rows = self.heads * sum(self.new)
        return read + rows * (self.d + self.value_dim) + (self.heads if self.sinks else 0)

    def __str__(self) -> str:
        lengths = sorted(set(self.lengths))
        span = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,}..{lengths[-1]:,}"
        width = f"d={self.d}" if self.d == self.value_dim else f"d={self.d} value_dim={self.value_dim}"
        kv = "" if self.kv_heads == self.heads else f"/{self.kv_heads:,} KV"
        more = f" kv_bits={self.kv_bits}" if self.has_scales else ""
        more += " values in keys" if self.values_in_keys else ""
        more += " sinks" if self.sinks else ""
        more += "" if self.softcap is None else f" softcap={self.softcap:g}"
        return (
            f"{show_count(len(self.lengths), 'request')} of {span} keys and {show_count(sum(self.new), 'new token')} in"
            f" pages of {self.page_size:,}, {width} heads={self.heads:,}{kv} {self.dtype.value}{more}"
        )


def checked_paged_workload(value: object) -> PagedWorkload:
    """``value`` if it is such a workload, or an error that says how to make one."""
    return checked_kind(
        value, PagedWorkload, "workload", "a PagedWorkload, such as PagedWorkload(lengths=(100, 30), page_size=16, d=8)"
    )


def _counts(name: str, given: Any) -> tuple[int, ...]:
    """Whole numbers of at least 1."""
    try:
        many = (given,) if isinstance(given, int | str) else tuple(given)
    except TypeError:
        raise InvalidInput(f"{name} is {show_value(given)}; give whole numbers, one for each request") from None
    if not many:
        raise InvalidInput(f"{name} is empty; give a number for each request")
    # most are numbers already, and there may be a million of them
    return tuple(
        each if type(each) is int and 0 < each <= _MOST else checked_count(name, as_count(name, each)) for each in many
    )


def _rows(table: Any) -> Table:
    """Pages of each request as whole numbers."""
    try:
        return tuple(tuple(map(index, row)) for row in table)
    except TypeError:
        raise InvalidInput(
            f"table is {show_value(table)}; give the pages of each request, such as ((0, 1), (0, 2))"
        ) from None


def _lengths_of(table: Table) -> Integers:
    """Pages of each row."""
    return np.fromiter(map(len, table), np.int64, count=len(table))


def _check_pages(lengths: tuple[int, ...], page_size: int) -> None:
    """Refuse more pages than a table of them can list here, and pages of nothing."""
    size = checked_count("page_size", page_size, most=_MOST)
    pages = sum(-(-length // size) for length in lengths)
    if pages > _MOST_PAGES:
        raise InvalidInput(
            f"requests have {show_count(pages, 'page')} of {show_count(size, 'key')} together, and tables list up to"
            f" {_MOST_PAGES:,}; use larger pages, or fewer or shorter requests"
        )


def _apart(lengths: tuple[int, ...], page_size: int) -> Table:
    """Pages of which nobody shares one."""
    _check_pages(lengths, page_size)
    rows, used = [], 0
    for length in lengths:
        pages = -(-length // page_size)
        rows.append(tuple(range(used, used + pages)))
        used += pages
    return tuple(rows)
