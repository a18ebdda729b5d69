"""The closed forms of the approximate dataflows by name, and their best tiles.

Tiles are for a degree, and for the least tile of keys that keeps rounding small.
"""

from math import isqrt
from typing import Protocol, assert_never

from attenio.planning.approximate import (
    feature_blocks,
    feature_gradient,
    feature_state,
    value_columns,
    window_and_features,
)
from attenio.planning.plan import ApproximateDataflow, Dataflow, MovingTiles, Tiles
from attenio.planning.problems import Problems


class ClosedForm(Protocol):
    """What the module of an approximate dataflow offers."""

    @property
    def TILES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """Names of the tiles, in order."""

    def moved_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words loaded and stored."""

    def peak_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words held at once."""


def approximate_form(dataflow: ApproximateDataflow) -> ClosedForm:
    """The module with the closed form of an approximate dataflow."""
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


def best_approximate_tiles(
    problems: Problems, dataflow: ApproximateDataflow, fast_words: int, degree: int, key_tile: int
) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    match dataflow:
        case Dataflow.FEATURE_STATE:
            best = feature_state.best_tiles(problems, fast_words, degree, key_tile)
        case Dataflow.VALUE_COLUMNS:
            best = value_columns.best_tiles(problems, fast_words, degree, key_tile)
        case Dataflow.FEATURE_BLOCKS:
            best = feature_blocks.best_tiles(problems, fast_words, degree, key_tile)
        case Dataflow.WINDOW_AND_FEATURES:
            raise ValueError(f"{dataflow.value} has its degree and its window searched together")
        case Dataflow.FEATURE_GRADIENT:
            return feature_gradient.best_tiles(problems, fast_words, degree)
        case _:
            assert_never(dataflow)
    return best and MovingTiles(best.moved_words, _with_more_keys(problems, dataflow, fast_words, best.tiles))


def _with_more_keys(problems: Problems, dataflow: ApproximateDataflow, fast_words: int, tiles: Tiles) -> Tiles:
    """The same with a larger tile of keys in the room that is left: no word more, and fewer roundings."""
    most = isqrt(problems.counts.most_keys - 1) + 1  # beyond it, a sum over tiles is shorter than one within a tile
    low, high = tiles["key_tile"], max(most, tiles["key_tile"]) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = approximate_form(dataflow).peak_words(problems, _with_key_tile(tiles, middle)) <= fast_words
        low, high = (middle, high) if fits else (low, middle)
    return _with_key_tile(tiles, low)


def _with_key_tile(tiles: Tiles, key_tile: int) -> Tiles:
    return Tiles.of(**{**tiles, "key_tile": key_tile})
