"""The grids that a call launches here, for a prediction of the bytes that they move below the L2."""

from dataclasses import replace

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import kind_of
from attenio.kernels.gpu.tuning import preferred
from attenio.kernels.triton.backward import grids_of_passes
from attenio.kernels.triton.forward import grid_of
from attenio.kernels.triton.tiles import forward_tiles
from attenio.planning.shared_cache import Grid


def grids(problem: KernelProblem, *, backward: bool) -> tuple[Grid, ...] | None:
    """Grids in the order of their launches; None for a shared prefix, which no grid describes."""
    if backward:
        return grids_of_passes(problem)
    if can_stack(problem):
        return None
    tiles = forward_tiles(problem)
    if tiles[0].splits_keys:  # every key is read once, by whichever program has it
        whole = grid_of(problem, tiles[0])
        rows = problem.group * problem.queries
        return (replace(whole, units=problem.batch * problem.kv_heads, rows=rows, tile=rows, sharing=1, causal=False),)
    return (grid_of(problem, preferred(kind_of("forward", problem), tiles)[0]),)
