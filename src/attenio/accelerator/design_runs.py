"""A dataflow on every design: all at once where its programs have one shape, else one design after the other."""

from collections.abc import Callable, Collection
from fractions import Fraction
from math import ceil, floor, lcm, log2

import numpy as np

from attenio.accelerator.designs import Designs, Runs, Tiling, attenio_runs, filling_tiles, is_vectorised, machine_of
from attenio.accelerator.hardware import WORD_BYTES
from attenio.accelerator.simulate import Simulation, plan_for, simulate_plan
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.planning import Dataflow, Tiles, plan_with
from attenio.workload import Workload

Progress = Callable[[int, int], None]

_MOST_TICKS = 2.0**61


def design_runs(
    designs: Designs, workload: Workload, dataflow: Dataflow, tiling: Tiling, progress: Progress | None = None
) -> Runs:
    """Run a dataflow on every design; told one by one where they are run so."""
    if is_vectorised(workload, dataflow, designs.key_tile):
        return attenio_runs(designs, workload, tiling)
    ticks, tiles = np.full(len(designs), -1, dtype=np.int64), np.zeros(len(designs), dtype=np.int64)
    cycles: dict[int, Fraction] = {}
    for number in range(len(designs)):
        done = _fastest(designs.of(np.array([number], dtype=np.int64)), workload, dataflow, tiling)
        if done is not None:
            cycles[number], tiles[number] = done.cycles, _rows(done)
        if progress is not None:
            progress(number + 1, len(designs))
    if not cycles:
        raise DoesNotFit(f"no design has a cache for {dataflow.value} on {workload}; use larger caches")
    ticks_per_cycle = _ticks_per_cycle(cycles.values())
    for number, taken in cycles.items():
        ticks[number] = ceil(taken * ticks_per_cycle)
    return Runs(ticks=ticks, query_tile=tiles, ticks_per_cycle=ticks_per_cycle)


def _ticks_per_cycle(cycles: Collection[Fraction]) -> int:
    """Ticks of which all take a whole number; where these would exceed 64 bits, the shortest that do not.

    Rates of designs that are no whole bytes a second have denominators with nothing in common.

    >>> _ticks_per_cycle([Fraction(1, 6), Fraction(7, 4)])
    12
    """
    longest = ceil(max(cycles))
    if longest >= _MOST_TICKS:
        raise InvalidInput("the smallest designs would run for more cycles than are counted exactly; use a smaller n")
    exact = lcm(*(taken.denominator for taken in cycles))
    return exact if longest * exact < _MOST_TICKS else 2 ** floor(log2(_MOST_TICKS / longest))


def simulated_design(machine: Machine, workload: Workload, dataflow: Dataflow, tiles: tuple[int, int]) -> Simulation:
    """A dataflow on one design; AttenIO with these rows and keys at a time, the others with their own tiles."""
    if dataflow is not Dataflow.ATTENIO:
        return simulate_plan(plan_for(workload, machine, dataflow), machine)
    chosen = Tiles.of(query_tile=tiles[0], key_tile=min(tiles[1], workload.keys))
    return simulate_plan(plan_with(workload, machine, dataflow, chosen), machine)


def _fastest(design: Designs, workload: Workload, dataflow: Dataflow, tiling: Tiling) -> Simulation | None:
    """The fastest run on one design, None where nothing fits."""
    keys, width = design.key_tile, max(workload.d, workload.value_dim)
    machine = machine_of(design.base, design.sizes(0), keys * width)
    candidates = {1}
    if dataflow is Dataflow.ATTENIO:
        room = int(design.cache_bytes[0]) // WORD_BYTES - min(keys, workload.keys) * width
        rows = min(room // (workload.d + workload.value_dim + 3 + min(keys, workload.keys)), workload.queries)
        if rows < 1:
            return None
        filling = int(filling_tiles(design, np.array([rows], dtype=np.int64))[0])
        candidates = {rows, filling} if tiling is Tiling.FASTEST else {rows}
    try:
        runs = [simulated_design(machine, workload, dataflow, (rows, keys)) for rows in sorted(candidates)]
    except DoesNotFit:
        return None
    return min(runs, key=lambda run: run.cycles)


def _rows(done: Simulation) -> int:
    """Rows of a tile: of queries, or of scores where these are what is tiled."""
    tiles = done.plan.tiles
    return tiles["query_tile"] if "query_tile" in tiles else tiles["score_rows"]
