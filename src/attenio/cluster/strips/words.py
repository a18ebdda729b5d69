"""The words that every rank of a layout in strips sends and receives, stage by stage: exact.

Every rank sends its queries, keys and values straight to those that compute with them, heads of a group to the ranks
of that group, and results come straight back. There is no exchange of heads before or after. Forward:

    gather-queries   own queries to the ranks whose rows they are
    gather-keys      own keys and values to the ranks that need them; some are passed on (``relays``)
    reduce-outputs   partial outputs with their log-sum-exps to the queries' homes

Backward, gather-queries has Q, dO, D and the log-sum-exps, and reduce-queries and reduce-keys bring gradients home.
Widths are those of the same stages of a grid.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.bytes import stage_widths_bytes
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.relays import Copies, Relay, relays
from attenio.cluster.words import Stage, StageWords, Widths, stage_widths
from attenio.errors import InvalidInput
from attenio.masks import Causal
from attenio.workload import Direction, Workload

Counts = NDArray[np.int64]
STAGES = {
    Direction.FORWARD: (Stage.GATHER_QUERIES, Stage.GATHER_KEYS, Stage.REDUCE_OUTPUTS),
    Direction.BACKWARD: (Stage.GATHER_QUERIES, Stage.GATHER_KEYS, Stage.REDUCE_QUERIES, Stage.REDUCE_KEYS),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic:
    """Tokens that every rank sends to those that compute with them, and that it gets; ``passed`` with relays."""

    rows_out: Counts
    rows_in: Counts
    keys_out: Counts
    keys_in: Counts
    keys_passed: Counts
    relays: tuple[Relay, ...]


def applies(workload: Workload) -> bool:
    """Whether a workload can be cut into strips: causal, as many queries as keys, values apart from keys."""
    return isinstance(workload.mask, Causal) and workload.queries == workload.keys and not workload.values_in_keys


def check_workload(workload: Workload, strips: Strips) -> None:
    """Refuse what strips are not for."""
    if not applies(workload):
        raise InvalidInput(f"strips are for a causal mask with as many queries as keys, and this is {workload}")
    if workload.kv_heads % strips.heads:
        raise InvalidInput(
            f"strips of {strips.heads:,} head groups do not cut {workload.kv_heads:,} KV heads evenly; use a divisor"
        )


def strips_words(workload: Workload, strips: Strips) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage of the workload's direction.

    >>> workload = Workload(n=1024, d=64, heads=8, mask="causal")
    >>> [(each.stage.value, int(each.sent.max())) for each in strips_words(workload, Strips(counts=(3, 2, 2)))]
    [('gather-queries', 98304), ('gather-keys', 282624), ('reduce-outputs', 154960)]
    """
    check_workload(workload, strips)
    if workload.is_training:
        passes = (workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD))
        return tuple(each for one in passes for each in strips_words(one, strips))
    found = traffic(workload, strips)
    return tuple(
        _stage(workload, strips, stage, found, stage_widths(workload, stage)) for stage in STAGES[workload.direction]
    )


def strips_bytes(workload: Workload, strips: Strips) -> tuple[StageWords, ...]:
    """The same in bytes, as ranks of torch.distributed send them; widths are those of a grid's stages."""
    check_workload(workload, strips)
    if workload.is_training:
        passes = (workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD))
        return tuple(each for one in passes for each in strips_bytes(one, strips))
    found = traffic(workload, strips)
    return tuple(
        _stage(workload, strips, stage, found, stage_widths_bytes(workload, stage))
        for stage in STAGES[workload.direction]
    )


def _stage(workload: Workload, strips: Strips, stage: Stage, found: Traffic, widths: Widths) -> StageWords:
    row = workload.batch * (workload.heads // strips.heads) * widths.row
    key = workload.batch * (workload.kv_heads // strips.heads) * widths.key
    out, came = row * found.rows_out + key * found.keys_out, row * found.rows_in + key * found.keys_in
    if stage is Stage.GATHER_QUERIES:
        return StageWords(stage=stage, sent=out, received=came)
    if stage is Stage.GATHER_KEYS:
        return StageWords(stage=stage, sent=key * found.keys_passed, received=came)
    return StageWords(stage=stage, sent=came, received=out)


@lru_cache(maxsize=32)
def traffic(workload: Workload, strips: Strips) -> Traffic:
    """Tokens that ranks send and get in one pass."""
    direct = direct_traffic(workload.keys, strips)
    return _relayed(workload, strips, direct, Copies([each.keys for each in strips.products(workload.keys)]))


def all_words(workload: Workload, strips: Strips) -> int:
    """Words that all ranks send together, whoever passes keys on."""
    check_workload(workload, strips)
    passes = (Direction.FORWARD, Direction.BACKWARD) if workload.is_training else (workload.direction,)
    found, works = direct_traffic(workload.keys, strips), [workload.towards(each) for each in passes]
    return sum(
        int(_stage(work, strips, stage, found, stage_widths(work, stage)).received.sum())
        for work in works
        for stage in STAGES[work.direction]
    )


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
        rows_out=rows_out - own_rows, rows_in=rows_in - own_rows, keys_out=keys_out - own_keys,
        keys_in=keys_in - own_keys, keys_passed=keys_out - own_keys, relays=(),
    )  # fmt: skip


def _held(homes: tuple[Tokens, ...], copies: Copies) -> Counts:
    return np.array([sum(copies.within(*span) for span in each.spans) for each in homes], dtype=np.int64)


def _relayed(workload: Workload, strips: Strips, direct: Traffic, copies: Copies) -> Traffic:
    """The same with keys passed on by others where a rank would send more than the mean."""
    tokens, h, products = workload.keys, strips.heads, strips.products(workload.keys)
    sent: Counts = np.sum(
        [
            _stage(workload, strips, each, direct, stage_widths(workload, each)).sent
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
    return Traffic(
        rows_out=direct.rows_out, rows_in=direct.rows_in, keys_out=direct.keys_out, keys_in=direct.keys_in,
        keys_passed=passed, relays=found,
    )  # fmt: skip
