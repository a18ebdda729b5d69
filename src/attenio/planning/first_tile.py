"""Training steps in which keys of the first causal tile stay in fast memory, with the last rows, where not all fit."""

from typing import NamedTuple

from attenio.planning.costs import cost_of, costed_plan
from attenio.planning.plan import Dataflow, Plan, Tiles
from attenio.planning.problems import Problems
from attenio.planning.words.causal_sums import CausalSums, Sizes
from attenio.planning.words.dataflows import known_forms
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.first_tile import Passes, Staying
from attenio.planning.words.turn_rooms import NEVER
from attenio.workload import Direction, Workload


class TilePasses(NamedTuple):
    """Both passes, what stays between them, and the words that they hold at once."""

    forward: Plan
    backward: Plan
    staying: Staying
    peak_words: int


def may_stay(problems: Problems) -> bool:
    """Whether a problem is a causal one of one head with as many keys as rows, more than one."""
    counts, sizes = problems.counts, problems.sizes
    alone = problems.group == problems.runs == 1 and bool(counts.kind.staircase) and counts.keys == counts.rows > 1
    return alone and problems.granularity.is_free and sizes.per_word == 1 and not problems.values_in_keys


def tile_passes(workload: Workload, fast_words: int, problems: Problems) -> TilePasses | None:
    """The best passes between which keys of the first tile stay, or None where there is none."""
    ways = workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD)
    each = [problems.held_by(way) for way in ways]
    free = fast_words - max(one.held_words for one in each)
    rows = int(problems.counts.rows)
    passes = Passes(*_phases(problems), problems.d, problems.value_dim, rows, free)
    words, best = passes.best()
    if words >= NEVER:
        return None
    sizes = Sizes(*(int(size) for size in best))
    staying = Staying(*(int(count) for count in passes.staying(sizes)))
    first = rows - int(passes.exchanged)
    tiles = (
        Tiles.of(exchanged_rows=rows - first, exchanges=1, last_rows=first, kept_keys=first),
        Tiles.of(
            last_keys=sizes.last,
            key_tile=sizes.tile,
            standing_sums=sizes.sums,
            exchanged_positions=sizes.exchanged,
        ),
    )
    dataflows = Dataflow.KEPT_KEYS, Dataflow.KEPT_ROW_GRADIENTS
    plans = [
        costed_plan(way, fast_words, dataflow, sized, cost_of(one, dataflow, sized))
        for way, one, dataflow, sized in zip(ways, each, dataflows, tiles, strict=True)
    ]
    held = (
        int(passes.held_forward(staying)) + each[0].held_words,
        int(passes.held_backward(sizes, staying)) + each[1].held_words,
    )
    return TilePasses(plans[0], plans[1], staying, max(*held, plans[1].peak_words))


def _phases(problems: Problems) -> tuple[ExchangedRows, CausalSums]:
    """What rows that exchange and tiles of causal keys take."""
    (forward,) = (
        form.phases[0]
        for form in known_forms(Dataflow.KEPT_KEYS, problems.sizes)
        if isinstance(form.phases[0], ExchangedRows)
    )
    (backward,) = (
        form.phases[0]
        for form in known_forms(Dataflow.KEPT_ROW_GRADIENTS, problems.sizes)
        if isinstance(form.phases[0], CausalSums)
    )
    return forward, backward
