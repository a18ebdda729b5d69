"""Best tiles of any dataflow, and which dataflows can move the least at all."""

from functools import cache
from typing import Protocol, assert_never

from attenio.planning.plan import Dataflow, GradientDataflow, MovingTiles
from attenio.planning.problems import Problems
from attenio.planning.search import (
    attenio,
    flash_attention_1,
    flash_attention_2,
    flat,
    rank_one_tiling,
    score_stationary,
    split_keys,
    square_tiling,
    stacked_groups,
    standard,
)
from attenio.planning.search.backward import (
    fused_values,
    key_stationary,
    query_stationary,
    spilled_gradients,
    tiled_products,
    two_pass,
)
from attenio.workload import Direction

__all__ = ["BACKWARD_CONTENDERS", "CONTENDERS", "Contender", "best_tiles", "contender", "contenders"]

# In the order in which equals are preferred. The dataflows that are missing never move less than one that is here:
# flash-attention-2 needs more room than attenio for the same words; split-keys adds partial results to what
# stacked-groups (attenio, for single heads) moves; square-tiling's tiles fit rank-one-tiling with room to spare.
CONTENDERS = (
    Dataflow.ATTENIO,
    Dataflow.STACKED_GROUPS,
    Dataflow.FLASH_ATTENTION_1,
    Dataflow.FLAT,
    Dataflow.RANK_ONE_TILING,
    Dataflow.SCORE_STATIONARY,
    Dataflow.STANDARD,
)
BACKWARD_CONTENDERS = (
    Dataflow.TWO_PASS,
    Dataflow.KEY_STATIONARY,
    Dataflow.QUERY_STATIONARY,
    Dataflow.SPILLED_GRADIENTS,
    Dataflow.TILED_PRODUCTS,
    Dataflow.FUSED_VALUES,
)


class Contender(Protocol):
    """What the module of a contender offers."""

    def best_tiles(self, problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
        """Tiles that move the fewest words; None if none fits, and perhaps if none stays within ``limit``."""

    def floor_words(self, problems: Problems, fast_words: int) -> float:
        """Words that no tile which fits goes below; infinite if none fits."""


def contenders(direction: Direction) -> tuple[Dataflow, ...]:
    """The dataflows of a direction that can move the least, in the order in which equals are preferred."""
    return BACKWARD_CONTENDERS if direction is Direction.BACKWARD else CONTENDERS


@cache  # a match compares one member after the other, and every plan asks about each of them
def contender(dataflow: Dataflow) -> Contender:
    """The search of a dataflow that may move the least."""
    match dataflow:
        case Dataflow.ATTENIO:
            return attenio
        case Dataflow.STACKED_GROUPS:
            return stacked_groups
        case Dataflow.FLASH_ATTENTION_1:
            return flash_attention_1
        case Dataflow.FLAT:
            return flat
        case Dataflow.RANK_ONE_TILING:
            return rank_one_tiling
        case Dataflow.SCORE_STATIONARY:
            return score_stationary
        case Dataflow.STANDARD:
            return standard
        case (
            Dataflow.KEY_STATIONARY
            | Dataflow.QUERY_STATIONARY
            | Dataflow.TWO_PASS
            | Dataflow.TILED_PRODUCTS
            | Dataflow.FUSED_VALUES
            | Dataflow.SPILLED_GRADIENTS
        ):
            return _gradient_contender(dataflow)
        case Dataflow.FLASH_ATTENTION_2 | Dataflow.SPLIT_KEYS | Dataflow.SQUARE_TILING:
            raise ValueError(f"{dataflow.value} never moves the least")
        case (
            Dataflow.FEATURE_STATE
            | Dataflow.VALUE_COLUMNS
            | Dataflow.FEATURE_BLOCKS
            | Dataflow.WINDOW_AND_FEATURES
            | Dataflow.FEATURE_GRADIENT
        ):
            raise ValueError(f"{dataflow.value} approximates; its tiles need a degree")
        case _:
            assert_never(dataflow)


def _gradient_contender(dataflow: GradientDataflow) -> Contender:
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


def best_tiles(problems: Problems, dataflow: Dataflow, fast_words: int) -> MovingTiles | None:
    """Tiles of this dataflow that move the fewest words, or None if none fits."""
    match dataflow:
        case Dataflow.FLASH_ATTENTION_2:
            return flash_attention_2.best_tiles(problems, fast_words)
        case Dataflow.SPLIT_KEYS:
            return split_keys.best_tiles(problems, fast_words)
        case Dataflow.SQUARE_TILING:
            return square_tiling.best_tiles(problems, fast_words)
        case _:
            return contender(dataflow).best_tiles(problems, fast_words)
