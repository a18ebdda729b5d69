"""Tiles of forms that are for some masks alone: refused under others, or where they leave out what has to be there."""

from typing import NamedTuple, NoReturn

import numpy as np

from attenio.errors import InvalidInput
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems, counting
from attenio.planning.problems.told_mask import told_mask
from attenio.planning.words import band_turns, dataflows
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.taking_turns import Sizes, TakingTurns, cut, in_hand, shape_of
from attenio.planning.words.turn_rooms import NEVER
from attenio.quantities import show_count
from attenio.workload import Workload

# Of dense problems, whose gradients may wait.
_WAITING_TILES = frozenset(("waiting_rows", "waiting_keys"))
# Of dense problems too: the rows of all heads lie one under the other.
_STACKED_TILES = frozenset(("stacked_rows", "row_sums", "turn_rows"))
# Of these some whose sums take turns with those of a tile.
_TURNING_TILES = frozenset(("turn_rows", "turn_keys"))
_MASKED_TURNS = frozenset(("masked_turn_rows", "masked_turn_keys"))
# Of rows, or keys, that come and go one by one, and where they may.
ROLLING_TILES = {
    "rolling_rows": "where the first row does not need the last key",
    "rolling_keys": "under a window alone, of whose keys no row needs all",
}
# So many sums with places of their own are tried to say how many do.
_TRIED = 4096


class GivenTiles(NamedTuple):
    """Tiles for the problems of a workload, and the tiles that the dataflow takes under every mask."""

    problems: Problems
    workload: Workload
    dataflow: Dataflow
    tiles: Tiles
    instead: tuple[str, ...]

    def has(self, names: frozenset[str] | set[str]) -> bool:
        """Whether one of these is among the tiles."""
        return not names.isdisjoint(self.tiles)

    def refuse(self, why: str) -> NoReturn:
        """A line that says what is for which mask, which mask there is, and what to give."""
        raise InvalidInput(f"{why}, and {told_mask(self.workload)}; give it {', '.join(self.instead)}")


def check_mask(given: GivenTiles) -> None:
    """Refuse tiles of forms that are not for the mask."""
    kind, name = given.problems.counts.kind, given.dataflow.value
    for tile in ROLLING_TILES:
        windows = tile == "rolling_keys" or "waiting_key_sums" in given.tiles
        if tile in given.tiles and not (kind.keys_roll if windows else kind.rows_roll):
            given.refuse(f"{name} has {tile} {ROLLING_TILES['rolling_keys' if windows else tile]}")
    if given.has(_WAITING_TILES) and not kind.dense:
        given.refuse(f"{name} has gradients wait where every row needs every key")
    if given.has(_STACKED_TILES) and not kind.dense:
        given.refuse(f"{name} stacks rows where every row needs every key")
    if given.has({"exchanged_rows", "exchanged_keys"}):
        _check_exchanges(given)
    if "whole_rows" in given.tiles and not kind.keys_roll:
        given.refuse(f"{name} has whole_rows {ROLLING_TILES['rolling_keys']}")
    _check_slots(given)


def _check_exchanges(given: GivenTiles) -> None:
    """Refuse exchanges where rows are not causal, or values cannot leave before their keys."""
    workload, instead = given.workload, ", ".join(given.instead)
    if "exchanged_rows" in given.tiles and not given.problems.counts.kind.staircase:
        raise InvalidInput(
            f"values give way to outputs under one causal mask with a key for every row, and {told_mask(workload)},"
            f" with {show_count(workload.queries, 'query')} and {show_count(workload.keys, 'key')}; give it {instead}"
        )
    if workload.values_in_keys:
        raise InvalidInput(f"values that are part of their keys cannot give way to outputs; give it {instead}")


def _check_slots(given: GivenTiles) -> None:
    """Refuse rings and turns that leave out what has to be there."""
    tiles, kind = given.tiles, given.problems.counts.kind
    if "ring_keys" in tiles:
        _check_ring(given, tiles["ring_keys"])
    if "ring_rows" in tiles:
        _check_row_ring(given, tiles["ring_rows"])
    if "last_keys" in tiles and not kind.causal:
        given.refuse(f"{given.dataflow.value} has last_keys, which pass rows that stay, under one causal mask")
    if "first_keys" in tiles and not kind.causal:
        given.refuse(f"{given.dataflow.value} has first_keys of all keys that stay under one causal mask")
    if "exchanged_positions" in tiles and not ("last_keys" in tiles or kind.dense):
        raise InvalidInput(
            f"positions stay at turns where every row needs every key, and {told_mask(given.workload)}; under a causal"
            " mask give it last_keys too"
        )
    if given.has(_TURNING_TILES):
        _check_turns(given)
    if given.has(_MASKED_TURNS):
        _check_band_turns(given)


def _check_ring(given: GivenTiles, ring: int) -> None:
    """Refuse a ring of keys under a mask that is no band, or one that does not hold what a row needs."""
    band = given.problems.counts.only_band
    if band is None:
        given.refuse("a ring of keys is for one dense, causal or window mask")
    if ring < band.longest_row:
        needed = int(band.longest_row)
        raise InvalidInput(f"ring_keys is {ring:,}, and a row needs {show_count(needed, 'key')}; give {needed:,}")


def _check_row_ring(given: GivenTiles, ring: int) -> None:
    """Refuse a ring of rows where all of them need all keys, or one that does not hold what two keys share."""
    counts = given.problems.counts
    rolls = counts.kind.rows_roll or (counts.kind.dense and "ring_keys" in given.tiles)
    if counts.only_band is None or not rolls:
        given.refuse("a ring of rows is for one causal or window mask")
    shared = int(counts.ring_rows.of_two)
    if ring < shared:
        raise InvalidInput(
            f"ring_rows is {ring:,}, and {show_count(shared, 'row')} need a key and the next one; give {shared:,}"
        )


def _check_turns(given: GivenTiles) -> None:
    """Refuse more sums that take turns than two groups have room for."""
    problems, tiles = given.problems, given.tiles
    (phase,) = dataflows.form_with(problems.sizes, given.dataflow, tiles).phases
    assert isinstance(phase, TakingTurns)
    shape = shape_of(phase, problems.group, problems.counts.rows, problems.counts.keys)
    sizes = cut(shape, Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums]))
    waiting, most = shape[1] - sizes.sums, 2 * in_hand(phase, sizes)
    if waiting > most:
        raise InvalidInput(
            f"{waiting:,} sums take turns, and {most:,} have room; make {phase.sums} {shape[1] - most:,} or more"
        )


def _check_band_turns(given: GivenTiles) -> None:
    """Refuse turns under other masks, and sums that none is left for."""
    problems, tiles = given.problems, given.tiles
    (phase,) = dataflows.form_with(problems.sizes, given.dataflow, tiles).phases
    assert isinstance(phase, BandTurns)
    if not problems.counts.sums_take_turns:
        given.refuse(
            f"{phase.slots} are for one causal or window mask whose first row needs the first key and some other row"
            " the last one"
        )
    steps = counting.steps_of(problems, phase)
    sizes = band_turns.Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums])
    if band_turns.words_of_turns(phase, steps, sizes) < NEVER:
        return
    come = int(steps.come)
    # each number if there are few, and so many of them from one end to the other if there are more
    tried = np.unique(np.linspace(min(sizes.sums + 1, come), come, min(come, _TRIED)).round().astype(np.int64))
    enough = tried[band_turns.words_of_turns(phase, steps, sizes._replace(sums=tried)) < NEVER]
    if not len(enough):
        raise InvalidInput(
            f"{phase.tile} is {sizes.tile:,}, and the first to pass a window meets {int(steps.right) + 1:,}; give at"
            f" least {int(steps.right) + 1:,}"
        )
    raise InvalidInput(
        f"{phase.sums} is {sizes.sums:,}, and some of the {come - sizes.sums:,} others have no turn; give"
        f" {int(enough[0]):,}"
    )
