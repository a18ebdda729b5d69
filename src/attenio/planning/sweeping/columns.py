"""The columns in which a sweep keeps plans, as numbers: names are positions in lists, and -1 stands for none."""

from functools import cache
from typing import assert_never

from attenio.planning.plan import Dataflow, Plan
from attenio.planning.search.dataflow import contenders
from attenio.planning.training import Saved, TrainingPlan
from attenio.planning.words.dataflows import tile_names
from attenio.workload import Direction

DATAFLOWS = tuple(Dataflow)
# The order of columns in files; tiles of other names follow.
TILE_NAMES = (
    "query_tile",
    "key_tile",
    "head_tile",
    "score_rows",
    "score_keys",
    "resident_keys",
    "output_rows",
    "output_columns",
)
GRADIENT_TILE_NAMES = (
    "query_tile",
    "key_tile",
    "head_tile",
    "stationary_keys",
    "passing_queries",
    "score_rows",
    "score_keys",
    "value_keys",
    "value_columns",
    "key_keys",
    "key_columns",
    "query_rows",
    "query_columns",
)
# Of tiled products that read probabilities which the forward pass has saved, in a training step.
READING_TILE_NAMES = ("gradient_rows", "gradient_keys")
# What a plan does not have; zero is a size that some tiles may have.
ABSENT = -1
# Columns that are positions in lists of names.
CHOICES: dict[str, tuple[str, ...]] = {
    **{name: tuple(d.value for d in DATAFLOWS) for name in ("dataflow", "forward_dataflow", "backward_dataflow")},
    "saved": tuple(saved.value for saved in Saved),
}
_PASSES = (Direction.FORWARD, Direction.BACKWARD)


@cache
def tile_columns(direction: Direction, *, in_step: bool = False) -> tuple[str, ...]:
    """The tiles of all dataflows of one pass, by itself or in a training step."""
    first = TILE_NAMES if direction is Direction.FORWARD else GRADIENT_TILE_NAMES
    others = [name for dataflow in contenders(direction) for names in tile_names(dataflow) for name in names]
    reading = READING_TILE_NAMES if direction is Direction.BACKWARD and in_step else ()
    return tuple(dict.fromkeys((*first, *(name for name in others if name not in READING_TILE_NAMES), *reading)))


@cache
def names_of_forms() -> tuple[tuple[str, ...], ...]:
    """The tiles of every form of every exact dataflow."""
    every = (each for way in _PASSES for each in Dataflow.towards(way))
    return tuple(dict.fromkeys(names for dataflow in every for names in tile_names(dataflow)))


@cache
def plan_columns(direction: Direction) -> tuple[str, ...]:
    """The columns of a plan; those of a training step have the columns of both passes, with their names before them."""
    match direction:
        case Direction.FORWARD | Direction.BACKWARD:
            return ("dataflow", *tile_columns(direction), "moved_words", "peak_words")
        case Direction.TRAINING:
            passes = [
                f"{way.value}_{name}"
                for way in _PASSES
                for name in ("dataflow", *tile_columns(way, in_step=True), "moved_words")
            ]
            return ("saved", *passes, "moved_words", "peak_words")
        case _:
            assert_never(direction)


def numbers_of(plan: Plan | TrainingPlan) -> dict[str, int]:
    """What a plan has in the columns."""
    if isinstance(plan, Plan):
        dataflow = DATAFLOWS.index(plan.dataflow)
        return {"dataflow": dataflow, **plan.tiles, "moved_words": plan.moved_words, "peak_words": plan.peak_words}
    numbers = {"saved": list(Saved).index(plan.saved)}
    for way, one in zip(_PASSES, (plan.forward, plan.backward), strict=True):
        own = {name: number for name, number in numbers_of(one).items() if name != "peak_words"}
        numbers |= {f"{way.value}_{name}": number for name, number in own.items()}
    return {**numbers, "moved_words": plan.moved_words, "peak_words": plan.peak_words}
