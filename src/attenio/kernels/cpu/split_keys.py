"""Split keys: for the few rows of a decode step, keys are cut over threads, and what they give is merged.

for each run s of keys_per_split keys, on a thread of its own:
    for each tile j of key_tile keys of s:
        S^T = K_j Q^T  (the long side first: K_j is read as it lies)
        P, max, sum, rescale = online softmax of scale S;  O_s = rescale O_s + P V_j
merge (O_s, max, sum) over s
"""

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import ProblemTile
from attenio.kernels.cpu.attenio import dropped
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.products import product, product_in_pieces
from attenio.kernels.cpu.tiles import as_exponents, cuts, key_tiles, per_row, rows_of

# Up to here a step takes as long as its calls, and one more exact product costs nothing.
FEW_KEYS = 512


def split_keys(problem: KernelProblem, part: ProblemTile, key_tile: int, *, in_pieces: bool = False) -> Sums:
    """The sums of all rows of a part over one run of keys."""
    note_launch("split_keys", key_tile=key_tile, part=part)
    Q = rows_of(problem, part)
    transposed, rows = Q.transpose(1, 2).contiguous(), slice(0, Q.shape[1])
    sums = Sums.empty(Q.shape[:2], problem.value.shape[-1], problem.precision, subtracts=True)
    buffer = Q.new_empty(Q.shape[0] * Q.shape[1] * key_tile)
    multiply = product_in_pieces if in_pieces or problem.keys <= FEW_KEYS else product
    for j in cuts(part.keys.stop, key_tile, part.keys.start):
        here = part._replace(keys=j)
        if (positions := problem.visible.positions_of(here)).start >= positions.stop:
            continue
        K_j, V_j = key_tiles(problem, here)
        S = multiply(K_j, transposed, buffer).transpose(1, 2).contiguous()
        as_exponents(problem, S, per_row(S, here, problem.group), here)
        P = sums.weigh(S, rows)
        if problem.dropout is not None:
            P = dropped(problem, P, here)
        sums.accumulate(P, V_j, rows)
    return sums
