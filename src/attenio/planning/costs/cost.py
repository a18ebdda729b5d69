"""The closed form of any dataflow: exact words moved and held, ceilings and masks included."""

from dataclasses import dataclass
from typing import Protocol, assert_never

from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.names import did_you_mean
from attenio.planning.costs import (
    attenio,
    feature_blocks,
    feature_state,
    flash_attention_1,
    flash_attention_2,
    flat,
    rank_one_tiling,
    score_stationary,
    split_keys,
    square_tiling,
    stacked_groups,
    standard,
    value_columns,
    window_and_features,
)
from attenio.planning.costs.backward import (
    feature_gradient,
    fused_values,
    key_stationary,
    query_stationary,
    spilled_gradients,
    tiled_products,
    two_pass,
)
from attenio.planning.costs.features_apply import refused_tiles, why_no_features
from attenio.planning.plan import ApproximateDataflow, Dataflow, GradientDataflow, Tiles
from attenio.planning.problems import Problems
from attenio.workload import Direction, Workload

__all__ = ["Cost", "checked_dataflow", "closed_form", "cost", "problems_of", "tile_names"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Words moved between slow and fast memory, and the most words held in fast memory at any time."""

    moved_words: int
    peak_words: int


class ClosedForm(Protocol):
    """What every module beside this one offers."""

    @property
    def TILES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """Names of the tiles, in order."""

    def moved_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words loaded and stored."""

    def peak_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words held at once."""


def cost(workload: Workload, dataflow: Dataflow | str, tiles: Tiles) -> Cost:
    """What a dataflow moves and holds with these tiles, without running it.

    >>> from attenio.workload import Workload
    >>> cost(Workload(n=4096, d=64), "attenio", Tiles.of(query_tile=512, key_tile=1))
    Cost(moved_words=4718592, peak_words=67648)
    """
    chosen = checked_dataflow(workload, dataflow)
    check_tiles(workload, chosen, tiles)
    form, problems = closed_form(chosen), problems_of(workload, chosen)
    return Cost(moved_words=form.moved_words(problems, tiles), peak_words=form.peak_words(problems, tiles))


def checked_dataflow(workload: Workload, dataflow: Dataflow | str) -> Dataflow:
    """The dataflow named, if it goes the workload's way."""
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
    return chosen


def problems_of(workload: Workload, dataflow: Dataflow, granularity: Granularity = FREE_TILES) -> Problems:
    """The problems that a dataflow's loop nest runs over."""
    if dataflow in (Dataflow.STACKED_GROUPS, Dataflow.SPLIT_KEYS):
        return Problems.stacked(workload, granularity)
    return Problems.separate(workload, granularity)


def tile_names(dataflow: Dataflow) -> tuple[tuple[str, ...], ...]:
    """The tiles a dataflow takes, in order.

    FLAT has a second form for rows that do not fit, tiled products one that reads saved probabilities, and spilled
    gradients one that makes dK as it makes dQ.
    """
    if dataflow is Dataflow.FLAT:
        return (flat.TILES, flat.SPILLING_TILES)
    if dataflow is Dataflow.TILED_PRODUCTS:
        return (tiled_products.TILES, tiled_products.READING_TILES)
    if dataflow is Dataflow.FEATURE_GRADIENT:
        return (feature_gradient.TILES, feature_gradient.SAVED_TILES)
    if dataflow is Dataflow.SPILLED_GRADIENTS:
        return (spilled_gradients.TILES, spilled_gradients.LEAN_TILES)
    return (closed_form(dataflow).TILES,)


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
        least = 0 if name in ("resident_keys", "saved_state") else 1
        if size < least:
            raise InvalidInput(f"{name} is {size:,}; it must be at least {least}")
    if dataflow is Dataflow.FLAT and "resident_keys" in tiles and tiles["query_tile"] != 1:
        raise InvalidInput(f"flat spills one row at a time; query_tile is {tiles['query_tile']:,}, make it 1")
    reason = refused_tiles(workload, dataflow, tiles) if dataflow.is_approximate else None
    if reason is not None:
        raise InvalidInput(reason)


def closed_form(dataflow: Dataflow) -> ClosedForm:
    """The module with a dataflow's closed form."""
    match dataflow:
        case Dataflow.STANDARD:
            return standard
        case Dataflow.FLAT:
            return flat
        case Dataflow.FLASH_ATTENTION_1:
            return flash_attention_1
        case Dataflow.FLASH_ATTENTION_2:
            return flash_attention_2
        case Dataflow.ATTENIO:
            return attenio
        case Dataflow.SQUARE_TILING:
            return square_tiling
        case Dataflow.RANK_ONE_TILING:
            return rank_one_tiling
        case Dataflow.SCORE_STATIONARY:
            return score_stationary
        case Dataflow.SPLIT_KEYS:
            return split_keys
        case Dataflow.STACKED_GROUPS:
            return stacked_groups
        case (
            Dataflow.KEY_STATIONARY
            | Dataflow.QUERY_STATIONARY
            | Dataflow.TWO_PASS
            | Dataflow.TILED_PRODUCTS
            | Dataflow.FUSED_VALUES
            | Dataflow.SPILLED_GRADIENTS
        ):
            return _gradient_form(dataflow)
        case (
            Dataflow.FEATURE_STATE
            | Dataflow.VALUE_COLUMNS
            | Dataflow.FEATURE_BLOCKS
            | Dataflow.WINDOW_AND_FEATURES
            | Dataflow.FEATURE_GRADIENT
        ):
            return _approximate_form(dataflow)
        case _:
            assert_never(dataflow)


def _approximate_form(dataflow: ApproximateDataflow) -> ClosedForm:
    match dataflow:
        case Dataflow.FEATURE_STATE:
            return feature_state
        case Dataflow.VALUE_COLUMNS:
            return value_columns
        case Dataflow.FEATURE_BLOCKS:
            return feature_blocks
        case Dataflow.WINDOW_AND_FEATURES:
            return window_and_features
        case Dataflow.FEATURE_GRADIENT:
            return feature_gradient
        case _:
            assert_never(dataflow)


def _gradient_form(dataflow: GradientDataflow) -> ClosedForm:
    match dataflow:
        case Dataflow.KEY_STATIONARY:
            return key_stationary
        case Dataflow.QUERY_STATIONARY:
            return query_stationary
        case Dataflow.TWO_PASS:
            return two_pass
        case Dataflow.TILED_PRODUCTS:
            return tiled_products
        case Dataflow.FUSED_VALUES:
            return fused_values
        case Dataflow.SPILLED_GRADIENTS:
            return spilled_gradients
        case _:
            assert_never(dataflow)
