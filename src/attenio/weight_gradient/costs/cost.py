"""The closed form of any dataflow of the weight gradient."""

from typing import Protocol, assert_never

from attenio.errors import InvalidInput
from attenio.planning.costs.cost import Cost
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs import (
    fused,
    fused_projections,
    one_pass,
    resident_keys,
    resident_rows,
    tiled_products,
    two_pass,
)
from attenio.weight_gradient.plan import WeightDataflow
from attenio.weight_gradient.workload import WeightGradient


class ClosedForm(Protocol):
    """What every dataflow's module beside this one offers."""

    @property
    def TILES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """Names of the tiles, in order."""

    def moved_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words loaded and stored."""

    def peak_words(self, problems: Problems, tiles: Tiles) -> int:
        """Words held at once."""


def weight_cost(workload: WeightGradient, dataflow: WeightDataflow | str, tiles: Tiles) -> Cost:
    """What a dataflow moves and holds with these tiles, without running it.

    >>> weight_cost(WeightGradient(n=4096, d=64), "fused", Tiles.of(query_tile=512, key_tile=1))
    Cost(moved_words=5431296, peak_words=166528)
    """
    chosen = WeightDataflow.named(dataflow)
    names = tile_names(chosen)
    if set(tiles) != set(names):
        raise InvalidInput(f"{chosen.value} takes the tiles {', '.join(names)}; got {', '.join(tiles) or 'none'}")
    for name, size in tiles.items():
        if size < 1:
            raise InvalidInput(f"{name} is {size:,}; it must be at least 1")
    form, problems = closed_form(chosen), problems_of(workload)
    return Cost(moved_words=form.moved_words(problems, tiles), peak_words=form.peak_words(problems, tiles))


def problems_of(workload: WeightGradient) -> Problems:
    """The one problem that a weight gradient is: its needed rows and keys."""
    return Problems(
        patterns=((workload.pattern, 1),),
        runs=1,
        group=1,
        d=workload.d,
        value_dim=workload.d,
        intermediate_words=workload.accumulator_words,
    )


def tile_names(dataflow: WeightDataflow) -> tuple[str, ...]:
    """The tiles a dataflow takes, in order."""
    return closed_form(dataflow).TILES


def closed_form(dataflow: WeightDataflow) -> ClosedForm:
    """The module with a dataflow's closed form."""
    match dataflow:
        case WeightDataflow.RESIDENT_KEYS:
            return resident_keys
        case WeightDataflow.RESIDENT_ROWS:
            return resident_rows
        case WeightDataflow.FUSED:
            return fused
        case WeightDataflow.FUSED_PROJECTIONS:
            return fused_projections
        case WeightDataflow.ONE_PASS:
            return one_pass
        case WeightDataflow.TWO_PASS:
            return two_pass
        case WeightDataflow.TILED_PRODUCTS:
            return tiled_products
        case _:
            assert_never(dataflow)
