"""Tokens that ranks of a layout send and get, and the words that these are in every stage.

Rows and keys go straight to the ranks that compute with them, and results straight home; there is no exchange of heads
before or after. Forward:

    gather-queries   own queries to the ranks whose rows they are; some are passed on by one of these
    gather-keys      own keys and values to the ranks that need them; some are passed on by one of these
    reduce-outputs   partial outputs with their log-sum-exps to the queries' homes

Backward, gather-queries has Q, dO, D and the log-sum-exps, and reduce-queries and reduce-keys bring gradients home.
Widths are those of the same stages of a grid.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attenio.cluster.layout import Counts
from attenio.cluster.words import Stage, StageWords, Widths, stage_widths
from attenio.errors import InvalidInput
from attenio.masks import Causal
from attenio.workload import Direction, Workload, refuse_forms

WidthsOf = Callable[[Workload, Stage], Widths]
STAGES = {
    Direction.FORWARD: (Stage.GATHER_QUERIES, Stage.GATHER_KEYS, Stage.REDUCE_OUTPUTS),
    Direction.BACKWARD: (Stage.GATHER_QUERIES, Stage.GATHER_KEYS, Stage.REDUCE_QUERIES, Stage.REDUCE_KEYS),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic:
    """Tokens of a head group that every rank sends from home to those that compute with them, and that it gets.

    ``rows_passed`` and ``keys_passed`` are those as they are sent, some of them by others than their homes.
    """

    rows_out: Counts
    rows_in: Counts
    rows_passed: Counts
    keys_out: Counts
    keys_in: Counts
    keys_passed: Counts


def applies(workload: Workload) -> bool:
    """Whether there are layouts for a workload: causal, as many queries as keys, values apart from keys, and plain."""
    square = isinstance(workload.mask, Causal) and workload.queries == workload.keys and not workload.values_in_keys
    return square and not (workload.has_scales or workload.sinks or workload.softcap is not None)


def check_layout(workload: Workload, heads: int, kind: str) -> None:
    """Refuse what a kind of layouts with so many head groups is not for."""
    refuse_forms(workload, "plans for many devices know no")
    if not applies(workload):
        raise InvalidInput(f"{kind} are for a causal mask with as many queries as keys, and this is {workload}")
    if workload.kv_heads % heads:
        raise InvalidInput(
            f"{kind} of {heads:,} head groups do not cut {workload.kv_heads:,} KV heads evenly; use a divisor"
        )


def passes(workload: Workload) -> tuple[Workload, ...]:
    """The passes of a workload, one after the other."""
    each = (Direction.FORWARD, Direction.BACKWARD) if workload.is_training else (workload.direction,)
    return tuple(workload.towards(direction) for direction in each)


def words_of_stages(
    workload: Workload,
    heads: int,
    traffic: Callable[[Workload], Traffic],
    widths: WidthsOf = stage_widths,
) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage of every pass, for so many head groups."""
    return tuple(
        stage_words(work, heads, stage, traffic(work), widths(work, stage))
        for work in passes(workload)
        for stage in STAGES[work.direction]
    )


def stage_words(workload: Workload, heads: int, stage: Stage, traffic: Traffic, widths: Widths) -> StageWords:
    """The same of one stage; reductions have rows or keys, and the other width is 0."""
    row = workload.batch * (workload.heads // heads) * widths.row
    key = workload.batch * (workload.kv_heads // heads) * widths.key
    out, came = row * traffic.rows_out + key * traffic.keys_out, row * traffic.rows_in + key * traffic.keys_in
    if stage is Stage.GATHER_QUERIES:
        return StageWords(stage=stage, sent=row * traffic.rows_passed, received=came)
    if stage is Stage.GATHER_KEYS:
        return StageWords(stage=stage, sent=key * traffic.keys_passed, received=came)
    return StageWords(stage=stage, sent=came, received=out)
