"""What a plan on pages moves and holds, in closed form.

With R rows of a part (new tokens of its requests times the heads of a group), N keys in P pages, and of a request with
n new tokens in p parts, for each KV head:

moved = sum over parts:    R d + ceil(R/a) (N k + P s)
      + sum over requests: g n (dv + 2 (p-1) (dv+2) w)
      + g with sinks
peak  = most over parts:   a'(d + (dv+3) w) + a'b'w + b'max(d, dv)/e + s + (dv+2) w where results are joined; + g

k words of a key and its value, s of the scales of a page, e entries of keys in a word, w words of an accumulated value.
"""

from collections import Counter
from itertools import chain
from typing import NamedTuple

import numpy as np

from attenio.page_tree import PageTree
from attenio.paging.plan import PagedTiles
from attenio.paging.workload import PagedWorkload


class PartKind(NamedTuple):
    """Rows, keys and pages of a part, whether it joins results, and how many parts are like it: they are few kinds."""

    rows: int
    keys: int
    pages: int
    joins: bool
    parts: int


def kinds_of(workload: PagedWorkload, tree: PageTree) -> tuple[PartKind, ...]:
    """The parts of a tree by kind: its runs, and what each request reads by itself."""
    new, lengths = np.asarray(workload.new, dtype=np.int64), np.asarray(workload.lengths, dtype=np.int64)
    own, size = np.asarray(tree.own, dtype=np.int64), workload.page_size
    alone = own * size < lengths
    found: Counter[tuple[int, ...]] = Counter()
    in_runs = np.zeros_like(own)
    if tree.runs:
        lengths_of_runs = np.array([len(run.requests) for run in tree.runs], dtype=np.int64)
        requests = np.fromiter(chain.from_iterable(run.requests for run in tree.runs), np.int64)
        starts = np.cumsum(lengths_of_runs) - lengths_of_runs
        number = np.repeat(np.arange(len(starts), dtype=np.int64), lengths_of_runs)
        in_runs = np.bincount(requests, minlength=len(own)).astype(np.int64)
        last = np.full(len(own), -1, dtype=np.int64)
        np.maximum.at(last, requests, number)
        ends = (last[requests] == number) & ~alone[requests] & (in_runs[requests] > 1)
        rows = workload.group * np.add.reduceat(new[requests], starts)
        pages = np.array([run.pages for run in tree.runs], dtype=np.int64)
        of_runs = (rows, pages * size, pages, np.logical_or.reduceat(ends, starts))
        found.update(zip(*(each.tolist() for each in of_runs), strict=True))
    alike = (workload.group * new, lengths - own * size, workload.begun - own, in_runs > 0)
    found.update(zip(*(each[alone].tolist() for each in alike), strict=True))
    return tuple(PartKind(rows, keys, pages, bool(joins), parts) for (rows, keys, pages, joins), parts in found.items())


def moved_words(workload: PagedWorkload, kinds: tuple[PartKind, ...], tiles: PagedTiles) -> int:
    """Words moved between slow and fast memory."""
    d, dv = workload.d, workload.value_dim
    partial = 2 * (dv + 2) * workload.accumulator_words
    # rows of all parts are those of each request as often as it has parts
    total = workload.group * sum(workload.new) * (dv - partial) + (workload.group if workload.sinks else 0)
    for kind in kinds:
        passes = -(-kind.rows // tiles.row_tile)
        read = passes * (kind.keys * workload.key_words + kind.pages * workload.scale_words)
        total += kind.parts * (kind.rows * (d + partial) + read)
    return workload.kv_heads * total


def peak_words(workload: PagedWorkload, kinds: tuple[PartKind, ...], tiles: PagedTiles) -> int:
    """The most words held in fast memory at any time."""
    d, dv, w = workload.d, workload.value_dim, workload.accumulator_words
    of_key, of_page, most = widest(workload), workload.scale_words, 0
    for kind in kinds:
        rows, keys = min(tiles.row_tile, kind.rows), min(tiles.key_tile, workload.page_size, kind.keys)
        held = rows * (d + (dv + 3) * w) + rows * keys * w + keys * of_key + of_page
        most = max(most, held + ((dv + 2) * w if kind.joins else 0))
    return most + (workload.group if workload.sinks else 0)


def widest(workload: PagedWorkload) -> int:
    """Words of a key or of a value, whichever are more: they lie in the same room, one after the other."""
    return (workload.d if workload.values_in_keys else max(workload.d, workload.value_dim)) // workload.per_word
