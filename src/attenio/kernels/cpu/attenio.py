"""AttenIO's order, queries and outputs stationary; stacked over the heads that share keys, it is stacked groups.

    for each tile i of query_tile positions and all heads of the group:
        Q_i = Q of these rows, in single precision; O_i, max, sum = 0, -inf, 0
        for each tile j of key_tile keys that a row of the tile may see:
            S = Q_i K_j^T for the rows that see a key of j;  hide the others' scores
            P, max, sum, rescale = online softmax of scale S
            O_i = rescale O_i + P V_j

What remains, O_i, max and sum, is divided at the end, or merged with what other keys gave first.
"""

from torch import Tensor

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import ProblemTile
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.products import product
from attenio.kernels.cpu.tiles import Keys, as_exponents, dropout_factors, per_row, rows_of, rows_within

# From here on a copy of the keys in transposed order costs less than it gains.
MANY_ROWS = 128


def attenio(problem: KernelProblem, part: ProblemTile, keys: Keys, *, subtracts: bool) -> Sums:
    """The sums of a tile of positions over the keys of the part."""
    note_launch("attenio", key_tile=keys.tile, subtracts=subtracts, part=part)
    Q_i, group = rows_of(problem, part), problem.group
    sums = Sums.empty(Q_i.shape[:2], problem.value.shape[-1], problem.precision, subtracts=subtracts)
    tile = min(keys.tile, part.keys.stop - part.keys.start)
    buffer = Q_i.new_empty(Q_i.shape[0] * Q_i.shape[1] * tile)
    for j in keys.tiles(part.keys):
        positions = problem.visible.positions_of(part._replace(keys=j))
        if positions.start >= positions.stop:
            continue
        here, rows = part._replace(keys=j, positions=positions), rows_within(positions, part.positions, group)
        K_j, V_j = keys.transposed(j, copied=Q_i.shape[1] > MANY_ROWS)
        S = product(Q_i[:, rows], K_j, buffer)
        as_exponents(problem, S, per_row(S, here, group), here)
        P = sums.weigh(S, rows)
        if problem.dropout is not None:
            P = dropped(problem, P, here)
        sums.accumulate(P, V_j, rows)
    return sums


def dropped(problem: KernelProblem, weights: Tensor, part: ProblemTile) -> Tensor:
    """Weights with dropout applied, in place."""
    per_row(weights, part, problem.group).mul_(dropout_factors(problem, part, weights))
    return weights
