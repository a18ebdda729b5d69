"""The forward pass: one sweep over keys fills the state, one over queries reads it; causal, both in one sweep.

    dense:   for tiles of keys:     Z += phi(K)^T [1, V]
             for tiles of queries:  Y = phi(Q) (w Z);  O = Y_V / Y_1
    causal:  for tiles of both:     Y = phi(Q) (w Z) + tril(p(Q K^T)) [1, V];  O = Y_V / Y_1;  Z += phi(K)^T [1, V]

The columns of [1, V] may be taken in blocks, each with its own sweeps: a smaller state, and features recomputed.
"""

from collections.abc import Iterator

from attenio.approximation.running.formula import Formula
from attenio.approximation.running.loading import Tensor
from attenio.approximation.running.sweeps import Heads, Sweep, polynomial_of


def forward(heads: Heads, formula: Formula, output: Tensor, denominators: Tensor) -> None:
    """Write O into ``output`` (heads, group, n, value_dim) and the denominators into (heads, group, n)."""
    sweep = Sweep(heads, formula)
    products_of = _causal if formula.causal else _dense
    for columns in formula.columns(heads.value.shape[-1]):
        first, stop = columns
        for low, high, products in products_of(sweep, columns):
            products = products.unflatten(1, (sweep.group, high - low))
            if first == 0:
                denominators[:, :, low:high] = products[..., 0]
                products = products[..., 1:]
            below = denominators[:, :, low:high, None]
            output[:, :, low:high, max(first - 1, 0) : stop - 1] = products / below


def _dense(sweep: Sweep, columns: tuple[int, int]) -> Iterator[tuple[int, int, Tensor]]:
    weighted = sweep.weighted(key_state(sweep, columns))
    for low, high in sweep.tiles(sweep.queries):
        yield low, high, sweep.times(sweep.query_rows(low, high), weighted)


def key_state(sweep: Sweep, columns: tuple[int, int]) -> Tensor:
    """phi(K)^T [1, V] over all keys."""
    state = sweep.no_state(columns)
    for low, high in sweep.tiles(sweep.keys):
        sweep.add(state, sweep.key_rows(low, high), sweep.values(low, high, columns))
    return state


def _causal(sweep: Sweep, columns: tuple[int, int]) -> Iterator[tuple[int, int, Tensor]]:
    state = sweep.no_state(columns)
    for low, high in sweep.tiles(sweep.queries):
        x, y = sweep.query_rows(low, high), sweep.key_rows(low, high)
        values = sweep.values(low, high, columns)
        inside = sweep.masked(polynomial_of(sweep.formula.coefficients, sweep.scores(x, y)))
        products = sweep.torch.bmm(inside, values)
        if low > 0:
            products += sweep.times(x, sweep.weighted(state))
        yield low, high, products
        if high < sweep.queries:
            sweep.add(state, y, values)
