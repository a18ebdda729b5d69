"""The closed form of any dataflow: exact words moved and held, ceilings and masks included."""

from dataclasses import dataclass

from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.names import did_you_mean
from attenio.planning.approximate import feature_gradient
from attenio.planning.approximate.applies import refused_tiles, why_no_features
from attenio.planning.approximate.forms import approximate_form
from attenio.planning.plan import Dataflow, Tiles, is_approximate
from attenio.planning.problems import Problems, counting
from attenio.planning.words import band_turns, dataflows
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.taking_turns import Sizes, TakingTurns, cut, in_hand, shape_of
from attenio.planning.words.turn_rooms import NEVER
from attenio.workload import Direction, Workload

# They stream columns of keys, or hold some of them, an entry of a key at a time.
_SINGLE_ENTRIES = (
    Dataflow.STANDARD, Dataflow.SQUARE_TILING, Dataflow.RANK_ONE_TILING, Dataflow.SCORE_STATIONARY
)  # fmt: skip
# Tiles that may have no size.
MAY_BE_NONE = frozenset(
    (
        "resident_keys",
        "saved_state",
        "waiting_rows",
        "waiting_keys",
        "waiting_sums",
        "late_rows",
        "late_keys",
        "own_row_sums",
        "own_key_sums",
        "last_keys",
        "standing_sums",
        "exchanged_positions",
        "standing_rows",
    )
)
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
# They make D before they ask for the log-sum-exp, with which the weight of a sink is known; the first of them has no
# log-sum-exp at hand where a score's gradient is made either, and so not the slope of a cap.
_WITHOUT_SUMS = (Dataflow.TILED_PRODUCTS, Dataflow.FUSED_VALUES)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Words moved between slow and fast memory, and the most words held in fast memory at any time."""

    moved_words: int
    peak_words: int


def cost(workload: Workload, dataflow: Dataflow | str, tiles: Tiles) -> Cost:
    """What a dataflow moves and holds with these tiles, without running it.

    >>> from attenio.workload import Workload
    >>> cost(Workload(n=4096, d=64), "attenio", Tiles.of(query_tile=512, key_tile=1))
    Cost(moved_words=4718592, peak_words=67648)
    """
    chosen = checked_dataflow(workload, dataflow)
    check_tiles(workload, chosen, tiles)
    return cost_of(problems_of(workload, chosen), chosen, tiles)


def cost_of(problems: Problems, dataflow: Dataflow, tiles: Tiles) -> Cost:
    """The same for problems that are known already."""
    if is_approximate(dataflow):
        known = approximate_form(dataflow)
        return Cost(moved_words=known.moved_words(problems, tiles), peak_words=known.peak_words(problems, tiles))
    form = dataflows.form_with(problems.sizes, dataflow, tiles)
    moved, peak = counting.moved_words(problems, form, tiles), counting.peak_words(problems, form, tiles)
    return Cost(moved_words=moved + problems.loaded_once, peak_words=peak + problems.held_words)


def checked_dataflow(workload: Workload, dataflow: Dataflow | str) -> Dataflow:
    """The dataflow named, if it is of the workload's direction."""
    chosen = Dataflow.named(dataflow)
    if workload.direction is Direction.TRAINING:
        raise InvalidInput(
            f"a training step runs a forward and a backward dataflow, and {chosen.value} is one of them; set the"
            f" direction to {chosen.direction.value} (--direction {chosen.direction.value})"
        )
    if chosen.direction is not workload.direction:
        others = ", ".join(dataflow.value for dataflow in Dataflow.towards(workload.direction))
        raise InvalidInput(
            f"{chosen.value} is for the {chosen.direction.value} pass and the workload asks about the"
            f" {workload.direction.value} one; use one of {others}, or --direction {chosen.direction.value}"
        )
    if chosen.is_approximate and workload.tolerance is None:
        raise InvalidInput(
            f"{chosen.value} approximates, and the workload asks for exact attention; give it a tolerance and an"
            " entry_bound, or use an exact dataflow"
        )
    reason = why_no_features(workload, chosen) if chosen.is_approximate else None
    if reason is not None:
        raise InvalidInput(reason)
    if not reads_keys_of(workload, chosen):
        raise InvalidInput(
            f"{chosen.value} reads single entries of keys, and with kv_bits={workload.kv_bits}"
            f" {workload.entries_per_word} of them share a word; use attenio, or leave kv_bits out"
        )
    if not knows_forms_of(workload, chosen):
        raise InvalidInput(
            f"{chosen.value} makes gradients without the log-sum-exp at hand, and that of"
            f" {'sinks' if workload.sinks else 'a softcap'} asks for it; use another dataflow, or leave it out"
        )
    return chosen


def reads_keys_of(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether a dataflow can read the keys of a workload: some read single entries, which may not share a word."""
    return not (workload.has_scales and dataflow in _SINGLE_ENTRIES)


def knows_forms_of(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether a dataflow computes what the workload does to scores: some gradients are made without what it takes."""
    capped = workload.softcap is not None and dataflow is Dataflow.TILED_PRODUCTS
    return not (capped or (workload.sinks and dataflow in _WITHOUT_SUMS))


def computes(workload: Workload, dataflow: Dataflow) -> bool:
    """Both: whether a dataflow computes this workload."""
    return reads_keys_of(workload, dataflow) and knows_forms_of(workload, dataflow)


def problems_of(workload: Workload, dataflow: Dataflow, granularity: Granularity = FREE_TILES) -> Problems:
    """The problems that a dataflow's loop nest runs over."""
    if dataflow in (Dataflow.STACKED_GROUPS, Dataflow.SPLIT_KEYS):
        return Problems.stacked(workload, granularity)
    return Problems.separate(workload, granularity)


def tile_names(dataflow: Dataflow) -> tuple[tuple[str, ...], ...]:
    """The tiles a dataflow takes, in order, for each of its forms."""
    if dataflow is Dataflow.FEATURE_GRADIENT:
        return (feature_gradient.TILES, feature_gradient.SAVED_TILES)
    return (approximate_form(dataflow).TILES,) if is_approximate(dataflow) else dataflows.tile_names(dataflow)


def check_tiles(workload: Workload, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse tiles that a dataflow does not take."""
    forms = tile_names(dataflow)
    if set(tiles) not in [set(names) for names in forms]:
        wanted = ", or ".join(", ".join(names) for names in forms)
        known = dict.fromkeys(name for names in forms for name in names)
        hints = (did_you_mean(name, known).strip() for name in tiles if name not in known)
        got = "; ".join([", ".join(tiles) or "none", *filter(None, hints)])
        raise InvalidInput(f"{dataflow.value} takes the tiles {wanted}; got {got}")
    for name, size in tiles.items():
        least = 0 if name in MAY_BE_NONE else 1
        if size < least:
            raise InvalidInput(f"{name} is {size:,}; it must be at least {least}")
    for name, where in ROLLING_TILES.items():
        kind = problems_of(workload, dataflow).counts.kind
        if name in tiles and not (kind.keys_roll if name == "rolling_keys" else kind.rows_roll):
            taken = ", ".join(forms[0])
            raise InvalidInput(f"{dataflow.value} has {name} {where}, and the mask is {workload.mask}; give it {taken}")
    if not _WAITING_TILES.isdisjoint(tiles) and not problems_of(workload, dataflow).counts.kind.dense:
        raise InvalidInput(
            f"{dataflow.value} has gradients wait where every row needs every key, and the mask is {workload.mask};"
            f" give it {', '.join(forms[0])}"
        )
    if not _STACKED_TILES.isdisjoint(tiles) and not problems_of(workload, dataflow).counts.kind.dense:
        raise InvalidInput(
            f"{dataflow.value} stacks rows where every row needs every key, and the mask is {workload.mask};"
            f" give it {', '.join(forms[0])}"
        )
    if not {"exchanged_rows", "exchanged_keys"}.isdisjoint(tiles):
        _check_exchanges(problems_of(workload, dataflow), workload, tiles, ", ".join(forms[0]))
    if "whole_rows" in tiles and not problems_of(workload, dataflow).counts.kind.keys_roll:
        raise InvalidInput(
            f"{dataflow.value} has whole_rows {ROLLING_TILES['rolling_keys']}, and the mask is {workload.mask}; give it"
            f" {', '.join(forms[0])}"
        )
    _check_slots(problems_of(workload, dataflow), workload, dataflow, tiles)
    if dataflow is Dataflow.FLAT and "resident_keys" in tiles and tiles["query_tile"] != 1:
        raise InvalidInput(f"flat spills one row at a time; query_tile is {tiles['query_tile']:,}, make it 1")
    columns, shared = tiles.get("value_columns", 0), workload.entries_per_word
    if columns % shared and columns < workload.value_dim:
        raise InvalidInput(f"value_columns is {columns:,}, and {shared} entries share a word; give a multiple of it")
    reason = refused_tiles(workload, dataflow, tiles) if dataflow.is_approximate else None
    if reason is not None:
        raise InvalidInput(reason)


def _check_exchanges(problems: Problems, workload: Workload, tiles: Tiles, instead: str) -> None:
    """Refuse exchanges where rows are not causal, or values cannot leave before their keys."""
    if "exchanged_rows" in tiles and not problems.counts.kind.staircase:
        raise InvalidInput(
            f"values give way to outputs under one causal mask with a key for every row, and the mask is"
            f" {workload.mask}, with {workload.queries:,} queries and {workload.keys:,} keys; give {instead}"
        )
    if workload.values_in_keys:
        raise InvalidInput(f"values that are part of their keys cannot give way to outputs; give {instead}")


def _check_slots(problems: Problems, workload: Workload, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse rings and turns that leave out what has to be there."""
    if "ring_keys" in tiles:
        _check_ring(problems, workload, tiles["ring_keys"])
    if "ring_rows" in tiles:
        _check_row_ring(problems, workload, tiles["ring_rows"])
    if "last_keys" in tiles and not problems.counts.kind.causal:
        raise InvalidInput(f"the last keys pass rows that stay under one causal mask, and the mask is {workload.mask}")
    if "first_keys" in tiles and not problems.counts.kind.causal:
        raise InvalidInput(f"all keys stay while rows pass under one causal mask, and the mask is {workload.mask}")
    if "exchanged_positions" in tiles and not ("last_keys" in tiles or problems.counts.kind.dense):
        raise InvalidInput(
            f"positions stay at turns where every row needs every key, and the mask is {workload.mask}; under a causal"
            " mask give it last_keys too"
        )
    if not _TURNING_TILES.isdisjoint(tiles):
        _check_turns(problems, dataflow, tiles)
    if not _MASKED_TURNS.isdisjoint(tiles):
        _check_band_turns(problems, workload, dataflow, tiles)


def _check_ring(problems: Problems, workload: Workload, ring: int) -> None:
    """Refuse a ring of keys under a mask that is no band, or one that does not hold what a row needs."""
    counts = problems.counts
    if counts.only_band is None:
        raise InvalidInput(f"a ring of keys is for one dense, causal or window mask, and the mask is {workload.mask}")
    if ring < counts.only_band.longest_row:
        raise InvalidInput(f"ring_keys is {ring:,}, and a row needs {int(counts.only_band.longest_row):,} keys")


def _check_row_ring(problems: Problems, workload: Workload, ring: int) -> None:
    """Refuse a ring of rows where all of them need all keys, or one that does not hold what two keys share."""
    counts = problems.counts
    if counts.only_band is None or not counts.kind.rows_roll:
        raise InvalidInput(f"a ring of rows is for one causal or window mask, and the mask is {workload.mask}")
    shared = int(counts.ring_rows.of_two)
    if ring < shared:
        raise InvalidInput(f"ring_rows is {ring:,}, and {shared:,} rows need a key and the next one")


def _check_turns(problems: Problems, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse more sums that take turns than two groups have room for."""
    (phase,) = dataflows.form_with(problems.sizes, dataflow, tiles).phases
    assert isinstance(phase, TakingTurns)
    counts = problems.counts
    shape = shape_of(phase, problems.group, counts.rows, counts.keys)
    sizes = cut(shape, Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums]))
    waiting, most = shape[1] - sizes.sums, 2 * in_hand(phase, sizes)
    if waiting > most:
        raise InvalidInput(
            f"{waiting:,} sums take turns, and {most:,} have room; make {phase.sums} {shape[1] - most:,} or more"
        )


def _check_band_turns(problems: Problems, workload: Workload, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse turns under other masks, and sums that none is left for."""
    (phase,), counts = dataflows.form_with(problems.sizes, dataflow, tiles).phases, problems.counts
    assert isinstance(phase, BandTurns)
    if not counts.sums_take_turns:
        raise InvalidInput(
            f"{phase.slots} are for one causal or window mask whose first row needs the first key and some other row"
            f" the last one, and the mask is {workload.mask}"
        )
    sizes = band_turns.Sizes(tiles[phase.tile], tiles[phase.slots], tiles[phase.sums])
    if band_turns.words_of_turns(phase, counting.steps_of(problems, phase), sizes) >= NEVER:
        raise InvalidInput(f"{phase.sums} is {sizes.sums:,}, and some of the others have no turn; give more")
