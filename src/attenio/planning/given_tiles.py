"""Tiles that a caller gives: of a form of the dataflow, no larger than the problem, of whole units of the machine."""

from attenio.errors import InvalidInput
from attenio.granularity import Granularity
from attenio.planning.costs import check_tiles, problems_of
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.largest_tiles import largest_size
from attenio.planning.problems.tile_sizes import odd_tile
from attenio.planning.search.dataflow import ONE_BY_ONE, in_units
from attenio.planning.words import dataflows
from attenio.quantities import show_given
from attenio.workload import Direction, Workload


def check_given_tiles(workload: Workload, dataflow: Dataflow, tiles: Tiles, granularity: Granularity) -> None:
    """Refuse tiles that would be cut to the problem, or that matrix units do not compute with, in a line."""
    check_tiles(workload, dataflow, tiles)
    problems = problems_of(workload, dataflow, granularity)
    for name, size in tiles.items():
        largest = largest_size(problems, tiles, name)
        if largest is not None and size > largest[0]:
            most, why = largest
            raise InvalidInput(
                f"{name} is {show_given(size)}, and {why}; give {'at most ' if most > 0 else ''}{most:,}"
            )
    if not (granularity.is_free or dataflow.is_approximate):
        _check_units(problems, dataflow, tiles)


def _check_units(problems: Problems, dataflow: Dataflow, tiles: Tiles) -> None:
    """Refuse what matrix units do not compute with: single scores or elements, and tiles of other sizes."""
    granularity = problems.granularity
    if dataflow in ONE_BY_ONE:
        raise InvalidInput(one_by_one(dataflow, granularity))
    form = dataflows.form_with(problems.sizes, dataflow, tiles)
    if in_units(dataflow, (form,)) == ():
        others = in_units(dataflow, dataflows.known_forms(dataflow, problems.sizes))
        raise InvalidInput(
            f"{dataflow.value} with {', '.join(form.names)} makes one score or product at a time, and this machine"
            f" computes with {granularity}; give it {', '.join(others[0].names)}, or use free tiles (--free-tiles)"
        )
    odd = odd_tile(problems, tiles)
    if odd is not None:
        multiple = f"a multiple of {odd.unit:,} or " if odd.unit < odd.whole else ""
        raise InvalidInput(
            f"{odd.name} is {odd.size:,}, and this machine computes with {granularity}; give {multiple}the whole"
            f" {odd.whole:,}, or use free tiles (--free-tiles)"
        )


def one_by_one(dataflow: Dataflow, granularity: Granularity) -> str:
    """Why a dataflow is not for matrix units, and which one is."""
    other = Dataflow.TWO_PASS if dataflow.direction is Direction.BACKWARD else Dataflow.ATTENIO
    return (
        f"{dataflow.value} makes one score at a time, and this machine computes with {granularity}; use {other.value},"
        " or free tiles (--free-tiles)"
    )
