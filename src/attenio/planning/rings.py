"""Passes of a training step that read and write everything once, with slots for all that a row, or a key, needs."""

from attenio.planning.costs import Cost, cost_of, costed_plan
from attenio.planning.plan import Dataflow, Plan, Tiles
from attenio.planning.problems import Problems
from attenio.workload import Direction, Workload


def why_no_outputs(problems: Problems) -> str | None:
    """Why no outputs stay in fast memory between the passes, or None if they may."""
    if problems.runs > 1 or problems.counts.only_band is None:
        return "outputs stay in fast memory for one KV head of one sequence, dense, causal or with a window"
    if not problems.granularity.is_free:
        return "outputs stay beside rows and keys that come one by one, which no granularity allows"
    return None


def keys_stay(problems: Problems) -> bool:
    """Whether keys that the forward pass leaves are what the backward pass begins with, and rows take their places."""
    counts = problems.counts
    return (
        bool(counts.kind.causal) and problems.group == 1 and counts.keys <= counts.rows and not problems.values_in_keys
    )


def _ring_tiles(problems: Problems) -> tuple[tuple[Dataflow, Tiles], tuple[Dataflow, Tiles]]:
    """Tiles with which either pass reads and writes everything once: slots for all that a row, or a key, needs.

    Or the backward pass has rows in the places of keys that are done.
    """
    band = problems.counts.only_band
    assert band is not None
    stacked = problems.heads_as_rows.counts.only_band
    assert stacked is not None
    keys, rows = (max(1, int(pattern.longest_row)) for pattern in (band, stacked.transposed))
    forward = Tiles.of(query_tile=1, kept_keys=keys, value_columns=problems.value_dim)
    backward = Tiles.of(key_tile=1, kept_rows=rows)
    if keys_stay(problems):
        backward = Tiles.of(last_keys=keys, key_tile=1, standing_sums=0, exchanged_positions=0)
    return (Dataflow.KEPT_KEYS, forward), (Dataflow.KEPT_ROW_GRADIENTS, backward)


def _ring_costs(workload: Workload, problems: Problems) -> list[tuple[Workload, Dataflow, Tiles, Cost]]:
    """Both passes with these tiles, and what they move and hold; kept with the problems, which are the workload's."""
    if "rings" not in problems.answers:
        ways = workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD)
        problems.answers["rings"] = [
            (way, dataflow, tiles, cost_of(seen.held_by(way), dataflow, tiles))
            for way, seen, (dataflow, tiles) in zip(
                ways, (problems, problems.heads_as_rows), _ring_tiles(problems), strict=True
            )
        ]
    costs: list[tuple[Workload, Dataflow, Tiles, Cost]] = problems.answers["rings"]
    return costs


def room_for_rings(workload: Workload, problems: Problems) -> int:
    """Words that both passes need to read and write everything once."""
    return max(cost.peak_words for _, _, _, cost in _ring_costs(workload, problems))


def rings(workload: Workload, problems: Problems) -> tuple[Plan, Plan]:
    """Both passes in the least room in which they read and write everything once."""
    room = room_for_rings(workload, problems)
    forward, backward = (
        costed_plan(way, room, dataflow, tiles, words)
        for way, dataflow, tiles, words in _ring_costs(workload, problems)
    )
    return forward, backward
