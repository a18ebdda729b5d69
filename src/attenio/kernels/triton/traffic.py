"""The grids that a call launches here, for a prediction of the bytes that they move below the L2."""

from dataclasses import replace

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.arguments import Shape
from attenio.kernels.triton.backward import key_gradients_grid, query_gradient_grid
from attenio.kernels.triton.choice import choose, choose_backward
from attenio.kernels.triton.forward import grid_of
from attenio.planning.shared_cache import Grid


def grids(problem: KernelProblem, *, backward: bool) -> tuple[Grid, ...] | None:
    """Grids in the order of their launches; None for a shared prefix, which no grid describes."""
    if backward:
        tiles, shape, device = choose_backward(problem).kernel, Shape.of(problem), problem.query.device
        first = query_gradient_grid(shape, tiles.query_gradient, device)
        return first, key_gradients_grid(shape, tiles.key_gradients, device)
    choice = choose(problem)
    if choice.own is not None:
        return None
    grid = grid_of(problem, choice.kernel)
    if choice.split is None:
        return (grid,)
    rows = problem.group * problem.queries  # every key is read once, by whichever program has it
    return (replace(grid, units=problem.batch * problem.kv_heads, rows=rows, tile=rows, sharing=1, causal=False),)
