"""The closed form of any dataflow: exact words moved and held, ceilings and masks included."""

from dataclasses import dataclass

from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.names import checked_kind, closest, did_you_mean
from attenio.planning.approximate import feature_gradient
from attenio.planning.approximate.applies import refused_tiles, why_no_features
from attenio.planning.approximate.forms import approximate_form
from attenio.planning.plan import OF_ROWS_OF_HEADS, Dataflow, Plan, TileRule, Tiles, is_approximate
from attenio.planning.problems import Problems, counting
from attenio.planning.tiles_of_masks import GivenTiles, check_mask
from attenio.planning.words import dataflows
from attenio.quantities import show_given
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
        "waiting_key_sums",
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
# They make D before they ask for the log-sum-exp, with which the weight of a sink is known; the first of them has no
# log-sum-exp at hand where a score's gradient is made either, and so not the slope of a cap.
_WITHOUT_SUMS = (Dataflow.TILED_PRODUCTS, Dataflow.FUSED_VALUES)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Words moved between slow and fast memory, and the most words held in fast memory at any time."""

    moved_words: int
    peak_words: int


def costed_plan(
    workload: Workload,
    fast_words: int,
    dataflow: Dataflow,
    tiles: Tiles,
    words: Cost,
    *,
    rule: TileRule = TileRule.BEST,
) -> Plan:
    """The plan of a dataflow whose tiles move and hold so many words."""
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=dataflow,
        tiles=tiles,
        rule=rule,
        moved_words=words.moved_words,
        peak_words=words.peak_words,
    )


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
    separate = Problems.separate(workload, granularity)
    as_rows = dataflow.direction is Direction.BACKWARD or dataflow in OF_ROWS_OF_HEADS
    return separate.heads_as_rows if as_rows else separate


def tile_names(dataflow: Dataflow) -> tuple[tuple[str, ...], ...]:
    """The tiles a dataflow takes, in order, for each of its forms."""
    if dataflow is Dataflow.FEATURE_GRADIENT:
        return (feature_gradient.TILES, feature_gradient.SAVED_TILES)
    return (approximate_form(dataflow).TILES,) if is_approximate(dataflow) else dataflows.tile_names(dataflow)


def check_tiles(workload: Workload, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse tiles that a dataflow does not take."""
    checked_kind(tiles, Tiles, "tiles", "Tiles, such as Tiles.of(query_tile=64, key_tile=16)")
    forms = tile_names(dataflow)
    if set(tiles) not in [set(names) for names in forms]:
        raise InvalidInput(_unknown_tiles(dataflow, tuple(tiles), forms))
    for name, size in tiles.items():
        least = 0 if name in MAY_BE_NONE else 1
        if size < least:
            raise InvalidInput(f"{name} is {show_given(size)}; it must be at least {least}")
    check_mask(GivenTiles(problems_of(workload, dataflow), workload, dataflow, tiles, forms[0]))
    if dataflow is Dataflow.FLAT and "resident_keys" in tiles and tiles["query_tile"] != 1:
        raise InvalidInput(f"flat spills one row at a time; query_tile is {tiles['query_tile']:,}, make it 1")
    shared = workload.entries_per_word
    for name in ("value_columns", "last_columns"):
        if (columns := tiles.get(name, 0)) % shared and columns < workload.value_dim:
            raise InvalidInput(f"{name} is {columns:,}, and {shared} entries share a word; give a multiple of it")
    reason = refused_tiles(workload, dataflow, tiles) if dataflow.is_approximate else None
    if reason is not None:
        raise InvalidInput(reason)


# So many sets of tiles are named in a line; of more, the nearest.
_FEW_FORMS = 2


def _unknown_tiles(dataflow: Dataflow, given: tuple[str, ...], forms: tuple[tuple[str, ...], ...]) -> str:
    """What was probably meant by names that are no set of tiles of a dataflow, and where all sets are listed."""
    known = dict.fromkeys(name for names in forms for name in names)
    meant = {name if name in known else closest(name, known) for name in given}
    alike = [names for names in forms if not meant.isdisjoint(names)] or forms[:1]
    nearest = max(alike, key=lambda names: 2 * len(meant & set(names)) - len(names))
    unknown = next((name for name in given if name not in known), None)
    hint = f"; {did_you_mean(unknown, known)}" if unknown else ""
    begin = f"unknown tile {unknown!r}{hint}" if unknown else ""
    got = "" if unknown else f"; got {', '.join(given) or 'none'}"
    if len(forms) <= _FEW_FORMS:
        return f"{begin}{dataflow.value} takes the tiles {', or '.join(', '.join(names) for names in forms)}{got}"
    return (
        f"{begin}{dataflow.value} takes the tiles {', '.join(nearest)}, or {len(forms) - 1} other sets{got};"
        f" 'attenio run --dataflow {dataflow.value} --tiles list' has them"
    )
