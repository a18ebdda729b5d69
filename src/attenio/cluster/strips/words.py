"""The words that every rank of a layout in strips sends and receives, stage by stage: exact."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from attenio.cluster import traffic as tokens_of_ranks
from attenio.cluster.layout import Counts
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.relays import Copies, Relay, relays
from attenio.cluster.traffic import STAGES, WidthsOf, check_layout, stage_words, words_of_stages
from attenio.cluster.words import Stage, StageWords, stage_widths
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic(tokens_of_ranks.Traffic):
    """Tokens that ranks send and get, and keys that some pass on."""

    relays: tuple[Relay, ...]


def strips_words(workload: Workload, strips: Strips, widths: WidthsOf = stage_widths) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage of the workload's direction; widths may be in bytes.

    >>> workload = Workload(n=1024, d=64, heads=8, mask="causal")
    >>> [(each.stage.value, int(each.sent.max())) for each in strips_words(workload, Strips(counts=(3, 2, 2)))]
    [('gather-queries', 98304), ('gather-keys', 282624), ('reduce-outputs', 154960)]
    """
    check_layout(workload, strips.heads, "strips")
    return words_of_stages(workload, strips.heads, partial(traffic, strips=strips), widths)


@lru_cache(maxsize=32)
def traffic(workload: Workload, strips: Strips) -> Traffic:
    """Tokens that ranks send and get in one pass."""
    direct = direct_traffic(workload.keys, strips)
    return _relayed(workload, strips, direct, Copies([each.keys for each in strips.products(workload.keys)]))


def all_words(workload: Workload, strips: Strips) -> int:
    """Words that all ranks send together, whoever passes keys on."""
    check_layout(workload, strips.heads, "strips")
    found = direct_traffic(workload.keys, strips)
    return sum(int(each.received.sum()) for each in words_of_stages(workload, strips.heads, lambda _: found))


@lru_cache(maxsize=32)
def direct_traffic(tokens: int, strips: Strips) -> Traffic:
    """The same without keys that are passed on."""
    h = strips.heads
    products, homes = strips.products(tokens), strips.homes(tokens)
    rows, keys = Copies([each.rows for each in products]), Copies([each.keys for each in products])
    own = [(mine.common(products[p // h].rows), mine.common(products[p // h].keys)) for p, mine in enumerate(homes)]
    own_rows, own_keys = np.array(own, dtype=np.int64).T
    rows_in, keys_in = (
        np.repeat(np.array([len(each) for each in sets], dtype=np.int64), h)
        for sets in ([each.rows for each in products], [each.keys for each in products])
    )
    rows_out, keys_out = (h * _held(homes, copies) for copies in (rows, keys))
    return Traffic(
        rows_out=rows_out - own_rows, rows_in=rows_in - own_rows, rows_passed=rows_out - own_rows,
        keys_out=keys_out - own_keys, keys_in=keys_in - own_keys, keys_passed=keys_out - own_keys, relays=(),
    )  # fmt: skip


def _held(homes: tuple[Tokens, ...], copies: Copies) -> Counts:
    return np.array([sum(copies.within(*span) for span in each.spans) for each in homes], dtype=np.int64)


def _relayed(workload: Workload, strips: Strips, direct: Traffic, copies: Copies) -> Traffic:
    """The same with keys passed on by others where a rank would send more than the mean."""
    tokens, h, products = workload.keys, strips.heads, strips.products(workload.keys)
    sent: Counts = np.sum(
        [
            stage_words(workload, h, each, direct, stage_widths(workload, each)).sent
            for each in STAGES[workload.direction]
        ],
        axis=0,
        dtype=np.int64,
    )
    width = stage_widths(workload, Stage.GATHER_KEYS).key * workload.batch * (workload.kv_heads // h)
    found = relays(strips, tokens, sent, width)
    passed = direct.keys_out.copy()
    for each in found:
        start, stop = each.span
        times, count = copies.within(start, stop), stop - start
        mine = products[each.home // h].keys.common(Tokens(((start, stop),)))
        passed[each.home] -= h * (times - count) - mine
        passed[each.place * h : (each.place + 1) * h] += times - count
        passed[each.place * h + each.home % h] -= mine
    return replace(direct, keys_passed=passed, relays=found)
