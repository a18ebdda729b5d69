"""Two passes: one for the gradient of queries, one for those of keys and values; nothing partial ever travels.

    for each tile i of query_tile positions and all heads of the group:
        D_i = dO_i . O_i;  dO_i = dO_i / sum_i;  D_i = D_i / sum_i;  dQ_i = 0
        for each tile j of key_tile keys that a row of the tile may see:
            P = exp2(scale log2(e) Q_i K_j^T - max_i);  dP = dO_i V_j^T;  dS = P (dP - D_i);  dQ_i += scale dS K_j
    for each tile j of query_tile keys (they are the stationary ones now):
        dK_j, dV_j = 0
        for each tile i of positions that see a key of j:
            P^T;  dV_j += P^T dO_i;  dS^T = P^T (V_j dO_i^T - D_i^T);  dK_j += scale dS^T Q_i

P is not divided by its row's sum: dO_i and D_i are, once. Scores are computed twice, one thread adds up every sum in
one order, and results repeat to the bit.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.choice import Choice, note_launch
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients, Saved
from attenio.kernels.call.visibility import ProblemTile
from attenio.kernels.cpu.choice import choose_backward
from attenio.kernels.cpu.fused import can_fuse, fused_backward
from attenio.kernels.cpu.products import add_product, product, product_in_pieces
from attenio.kernels.cpu.split_keys import split_keys
from attenio.kernels.cpu.tiles import (
    as_exponents,
    batch_heads,
    cuts,
    dropout_factors,
    key_tiles,
    per_row,
    rows_of,
    rows_within,
    stacked_rows,
    unstacked_rows,
)
from attenio.kernels.cpu.tiling import FEW_ROWS, Tiling
from attenio.kernels.cpu.workers import run_all


class _StackedRows(NamedTuple):
    """Rows of a part, stacked: queries, dO and D over the row's sum, largest scores as exponents of two."""

    Q: Tensor
    dO: Tensor
    D: Tensor
    largest: Tensor


def gradients(problem: KernelProblem, saved: Saved, *, with_bias: bool = False) -> Gradients:
    """The gradients by what is chosen for this machine; nothing was subtracted from scores that were short."""
    subtracts = not can_fuse(problem) or bool(saved.largest.any())
    return run_backward(problem, saved, choose_backward(problem, subtracts=subtracts), with_bias=with_bias)


def run_backward(problem: KernelProblem, saved: Saved, choice: Choice, *, with_bias: bool = False) -> Gradients:
    """The gradients by a choice."""
    if choice.name == "fused_backward":
        return Gradients(*fused_backward(problem, saved.output, saved.total, saved.gradient), None)
    tiling, tiles, bias = choice.kernel, choice.tiles, problem.visible.bias
    gradients = Gradients(
        query=torch.zeros(problem.query.shape, dtype=problem.query.dtype),
        key=torch.zeros(problem.key.shape, dtype=problem.key.dtype),
        value=torch.zeros(problem.value.shape, dtype=problem.value.dtype),
        bias=torch.zeros(bias.shape, dtype=problem.precision) if with_bias and bias is not None else None,
    )
    where, positions = batch_heads(problem, tiling.heads_at_once), cuts(problem.queries, tiling.query_tile)
    if _has_few_rows(problem) and not problem.is_part:
        saved = _anew(problem, saved, where, tiling)
    parts = [ProblemTile(*batch_head, i, slice(0, problem.keys)) for batch_head in where for i in positions[::-1]]
    # A bias that heads or sequences share collects from several tiles: one thread then.
    alone = tiling.is_small or gradients.bias is not None
    run_all(lambda part: _query_gradient(problem, saved, part, tiling, gradients), parts, small=alone)
    stationary, passing = tiles["stationary_keys"], tiles["passing_queries"]
    parts = [
        ProblemTile(*batch_head, slice(0, problem.queries), j)
        for batch_head in where
        for j in cuts(problem.keys, stationary)
    ]
    transposed = _TransposedRows(problem, saved, tiling.keep_bytes)
    run_all(lambda part: _key_gradients(problem, transposed, part, passing, gradients), parts, small=tiling.is_small)
    return gradients if problem.keys > 1 or problem.is_part else _of_one_key(problem, saved, gradients)


def _anew(problem: KernelProblem, saved: Saved, where: list[tuple[slice, slice]], tiling: Tiling) -> Saved:
    """Largest scores and sums of weights by the products that follow: another order rounds large scores otherwise.

    For many rows both passes use the same products, and for few ones this costs little.
    """
    largest, total = torch.empty_like(saved.largest), torch.empty_like(saved.total)

    def work(batch_head: tuple[slice, slice]) -> None:
        part = ProblemTile(*batch_head, slice(0, problem.queries), slice(0, problem.keys))
        sums = split_keys(problem, part, tiling.key_tile, in_pieces=True)
        unstacked_rows(sums.largest, largest[batch_head][..., None])
        unstacked_rows(sums.total, total[batch_head][..., None])

    run_all(work, where, small=tiling.is_small)
    return saved._replace(largest=largest, total=total)


def _of_one_key(problem: KernelProblem, saved: Saved, gradients: Gradients) -> Gradients:
    """The weight of an only key is 1 whatever its score: dO.V - dO.O is zero, and what is left of it is rounding."""
    for gradient in (gradients.query, gradients.key, gradients.bias):
        if gradient is not None:
            gradient.zero_()
    if problem.dropout is None:
        sees = (saved.total != 0.0)[..., None]
        summed = (saved.gradient.to(problem.precision) * sees).sum((2, 3))
        gradients.value.copy_(summed[:, :, None])
    return gradients


def _query_gradient(
    problem: KernelProblem, saved: Saved, part: ProblemTile, tiling: Tiling, gradients: Gradients
) -> None:
    note_launch("query_gradient", key_tile=tiling.key_tile, part=part)
    rows = _rows(problem, saved, part)
    dQ, multiply = torch.zeros_like(rows.Q), _multiply(problem)
    buffers = rows.Q.new_empty(2, rows.Q.shape[0] * rows.Q.shape[1] * tiling.key_tile)
    for j in cuts(problem.keys, tiling.key_tile):
        positions = problem.visible.positions_of(part._replace(keys=j))
        if positions.start >= positions.stop:
            continue
        here, cut = part._replace(keys=j, positions=positions), rows_within(positions, part.positions, problem.group)
        K_j, V_j = key_tiles(problem, here)
        P = multiply(rows.Q[:, cut], K_j.transpose(1, 2).contiguous(), buffers[0])
        derivative = _cap_derivative(problem, P)
        _weigh(problem, P, per_row(P, here, problem.group), rows.largest[:, cut], here)
        dP = multiply(rows.dO[:, cut], V_j.transpose(1, 2).contiguous(), buffers[1])
        if problem.dropout is not None:
            per_row(dP, here, problem.group).mul_(dropout_factors(problem, here, dP))
        dS = dP.sub_(rows.D[:, cut]).mul_(P)
        if gradients.bias is not None:
            _add_to_bias(problem, gradients.bias, dS, here)
        add_product(dQ[:, cut], dS if derivative is None else dS.mul_(derivative), K_j)
    into = gradients.query[part.batch, part.heads, :, part.positions]
    unstacked_rows(dQ.mul_(problem.scale), into)


def _key_gradients(
    problem: KernelProblem, transposed: "_TransposedRows", part: ProblemTile, passing: int, gradients: Gradients
) -> None:
    note_launch("key_gradients", passing=passing, part=part)
    where = (part.batch, part.heads, part.keys)
    K_j, V_j = key_tiles(problem, part)
    dK, dV, multiply = torch.zeros_like(K_j), torch.zeros_like(V_j), _multiply(problem)
    buffers = K_j.new_empty(2, K_j.shape[0] * K_j.shape[1] * passing * problem.group)
    for i in cuts(problem.queries, passing):
        positions = problem.visible.positions_of(part._replace(positions=i))
        if positions.start >= positions.stop:
            continue
        here, cut = part._replace(positions=positions), rows_within(positions, i, problem.group)
        whole, Q_transposed, dO_transposed = transposed(part._replace(positions=i))
        rows = _StackedRows(*(x[:, cut] for x in whole))
        P = multiply(K_j, Q_transposed[:, :, cut], buffers[0])
        derivative, by_row = _cap_derivative(problem, P), per_row(P.transpose(1, 2), here, problem.group)
        _weigh(problem, P, by_row, rows.largest.transpose(1, 2), here)
        dP = multiply(V_j, dO_transposed[:, :, cut], buffers[1])
        if problem.dropout is not None:
            factors = dropout_factors(problem, here, dP)
            per_row(dP.transpose(1, 2), here, problem.group).mul_(factors)
            dropped_P = P.clone()
            per_row(dropped_P.transpose(1, 2), here, problem.group).mul_(factors)
            add_product(dV, dropped_P, rows.dO)
        else:
            add_product(dV, P, rows.dO)
        dS = dP.sub_(rows.D.transpose(1, 2)).mul_(P)
        add_product(dK, dS if derivative is None else dS.mul_(derivative), rows.Q)
    # rows.Q carry the sign of the scale.
    shape = gradients.key[where].shape
    gradients.key[where] = dK.mul_(abs(problem.scale)).view(shape).to(gradients.key.dtype)
    gradients.value[where] = dV.view(*shape[:-1], -1).to(gradients.value.dtype)


def _multiply(problem: KernelProblem) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Few rows: an untiled computation multiplies them one by one, and that is the error to stay near."""
    return product_in_pieces if _has_few_rows(problem) else product


def _has_few_rows(problem: KernelProblem) -> bool:
    return problem.group * problem.queries <= FEW_ROWS


class _TransposedRows:
    """Tiles of rows with Q and dO transposed as well, stored if all fit the cache: every key tile reads them."""

    def __init__(self, problem: KernelProblem, saved: Saved, keep_bytes: int) -> None:
        self._problem, self._saved = problem, saved
        words = 2 * (problem.query.numel() + saved.gradient.numel())
        self._converted: dict[tuple[int, ...], tuple[_StackedRows, Tensor, Tensor]] | None = (
            {} if 4 * words <= keep_bytes else None
        )

    def __call__(self, part: ProblemTile) -> tuple[_StackedRows, Tensor, Tensor]:
        name = tuple(cut.start for cut in part[:3])
        if self._converted is not None and name in self._converted:
            return self._converted[name]
        rows = _rows(self._problem, self._saved, part)
        transposed = rows, rows.Q.transpose(1, 2).contiguous(), rows.dO.transpose(1, 2).contiguous()
        if self._converted is not None:
            self._converted[name] = transposed
        return transposed


def _rows(problem: KernelProblem, saved: Saved, part: ProblemTile) -> _StackedRows:
    where = (part.batch, part.heads, slice(None), part.positions)
    dO, output = (stacked_rows(x[where], problem.precision) for x in (saved.gradient, saved.output))
    total, largest = (stacked_rows(x[where][..., None], problem.precision) for x in (saved.total, saved.largest))
    dO.div_(torch.where(total == 0.0, torch.inf, total))  # a row that saw nothing gives nothing
    largest.masked_fill_(total == 0.0, 0.0)
    return _StackedRows(Q=rows_of(problem, part), dO=dO, D=(dO * output).sum(-1, keepdim=True), largest=largest)


def _cap_derivative(problem: KernelProblem, products: Tensor) -> Tensor | None:
    """The derivative of capped scores by scores, where there is a cap: 1 - tanh(s / cap)^2."""
    if not problem.softcap:
        return None
    return products.mul(abs(problem.scale) / problem.softcap).tanh_().square_().neg_().add_(1.0)


def _weigh(problem: KernelProblem, scores: Tensor, by_row: Tensor, largest: Tensor, part: ProblemTile) -> None:
    """Turn products into weights, in place; ``by_row`` is a view of the same scores."""
    as_exponents(problem, scores, by_row, part)
    torch.exp2(scores.sub_(largest), out=scores)


def _add_to_bias(problem: KernelProblem, bias: Tensor, dS: Tensor, part: ProblemTile) -> None:
    tile = problem.visible.bias_tile(bias, part)
    tile.add_(per_row(dS, part, problem.group).sum_to_size(tile.shape))
