"""The gradient of the formula itself, features recomputed. With Y = [Y_1, Y_V] the products of the forward pass and
G = dY = [-(dO . O), dO] / Y_1:

    dense:   for tiles of keys:              Z += phi(K)^T [1, V]
             for tiles of queries:           U += phi(Q)^T G;           dphi(Q) = G (w Z)^T
             for tiles of keys:              d[1, V] = phi(K) (w U);    dphi(K) = [1, V] (w U)^T
    causal:  for tiles of both, onwards:     dphi(Q) as above from the Z of earlier tiles, then Z +=
             for tiles of both, backwards:   d[1, V], dphi(K) as above from the U of later tiles, then U +=
             and inside a tile: dS = tril(G [1, V]^T) p'(S), dQ += dS K, dK += dS^T Q, dV += tril(p(S))^T G
"""

from dataclasses import dataclass
from typing import Any

from attenio.approximation.running.feature_rows import FeatureRows
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.forward import key_state
from attenio.approximation.running.loading import Tensor
from attenio.approximation.running.sweeps import Heads, Sweep, polynomial_of


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the forward pass left, and the gradient of its output."""

    output: Tensor  # (heads, group, n, value_dim)
    denominators: Tensor  # (heads, group, n)
    gradient: Tensor  # of the output

    def of_products(self, low: int, high: int, columns: tuple[int, int], dtype: Any) -> Tensor:
        """G at these queries: (heads, group x rows, columns)."""
        below = self.denominators[:, :, low:high, None]
        d_output = self.gradient[:, :, low:high].to(dtype)
        first, stop = columns
        part = d_output[..., max(first - 1, 0) : stop - 1] / below
        if first == 0:
            import torch

            along = (d_output * self.output[:, :, low:high].to(dtype)).sum(-1, keepdim=True)
            part = torch.cat([-along / below, part], dim=-1)
        return part.flatten(1, 2)


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """Where the gradients are added up, in the type of the computation; minus that of all keys is the centre's."""

    query: Tensor
    key: Tensor
    value: Tensor


def backward(heads: Heads, formula: Formula, results: Results, into: Gradients) -> None:
    """Add the gradients of one batch of heads to ``into``."""
    sweep = Sweep(heads, formula)
    for columns in formula.columns(heads.value.shape[-1]):
        pass_ = _Pass(sweep, results, into, columns)
        if formula.causal:
            pass_.onwards()
            pass_.backwards()
        else:
            pass_.dense()


class _Pass:
    """All sweeps for one block of columns of [1, V]."""

    def __init__(self, sweep: Sweep, results: Results, into: Gradients, columns: tuple[int, int]) -> None:
        self.sweep, self.results, self.into, self.columns = sweep, results, into, columns

    def dense(self) -> None:
        sweep = self.sweep
        weighted = sweep.weighted(key_state(sweep, self.columns))
        state = sweep.no_state(self.columns)
        for low, high in sweep.tiles(sweep.queries):
            x, g = sweep.query_rows(low, high), self._g(low, high)
            sweep.add(state, x, g)
            sweep.pull(x, weighted, g)
            self._to_queries(low, high, x.pulled())
        weighted = sweep.weighted(state)
        for low, high in sweep.tiles(sweep.keys):
            y, values = sweep.key_rows(low, high), sweep.values(low, high, self.columns)
            self._to_values(low, high, sweep.times(y, weighted))
            sweep.pull(y, weighted, values)
            self._to_keys(low, high, y.pulled())

    def onwards(self) -> None:
        sweep = self.sweep
        state = sweep.no_state(self.columns)
        for low, high in sweep.tiles(sweep.queries):
            x, y, g = sweep.query_rows(low, high), sweep.key_rows(low, high), self._g(low, high)
            values = sweep.values(low, high, self.columns)
            ds = self._score_gradients(x, y, g, values)
            self._to_queries(low, high, sweep.torch.bmm(ds, y.variables.transpose(1, 2)))
            if low > 0:
                sweep.pull(x, sweep.weighted(state), g)
                self._to_queries(low, high, x.pulled())
            sweep.add(state, y, values)

    def backwards(self) -> None:
        sweep = self.sweep
        state = sweep.no_state(self.columns)
        for low, high in reversed(sweep.tiles(sweep.queries)):
            x, y, g = sweep.query_rows(low, high), sweep.key_rows(low, high), self._g(low, high)
            values = sweep.values(low, high, self.columns)
            inside = sweep.masked(polynomial_of(sweep.formula.coefficients, sweep.scores(x, y)))
            self._to_values(low, high, sweep.torch.bmm(inside.transpose(1, 2), g))
            ds = self._score_gradients(x, y, g, values)
            self._to_keys(low, high, sweep.torch.bmm(ds.transpose(1, 2), x.variables.transpose(1, 2)))
            if high < sweep.queries:
                weighted = sweep.weighted(state)
                self._to_values(low, high, sweep.times(y, weighted))
                sweep.pull(y, weighted, values)
                self._to_keys(low, high, y.pulled())
            sweep.add(state, x, g)

    def _g(self, low: int, high: int) -> Tensor:
        return self.results.of_products(low, high, self.columns, self.sweep.dtype)

    def _score_gradients(self, x: FeatureRows, y: FeatureRows, g: Tensor, values: Tensor) -> Tensor:
        """dS of the tile on the diagonal."""
        ds = polynomial_of(self.sweep.formula.derivative, self.sweep.scores(x, y))
        return self.sweep.masked(ds.mul_(self.sweep.torch.bmm(g, values.transpose(1, 2))))

    def _to_queries(self, low: int, high: int, gradient: Tensor) -> None:
        shaped = (gradient * self.sweep.query_factor).unflatten(1, (self.sweep.group, high - low))
        self.into.query[:, :, low:high] += shaped

    def _to_keys(self, low: int, high: int, gradient: Tensor) -> None:
        self.into.key[:, low:high] += gradient * self.sweep.key_factor

    def _to_values(self, low: int, high: int, gradient: Tensor) -> None:
        first, stop = self.columns
        self.into.value[:, low:high, max(first - 1, 0) : stop - 1] += gradient[..., 1:] if first == 0 else gradient
