"""The parts that every pass over queries or keys is made of.

A head tile is a batch of KV heads that run together. Queries are (heads, group, n, d), keys (heads, m, d), values
(heads, m, columns); all are read tile by tile in the type they come in and computed with in the type of the formula.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from attenio.approximation.running.feature_rows import FeatureRows
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.loading import Tensor


@dataclass(frozen=True, kw_only=True)
class Heads:
    """One batch of KV heads, and what their rows are shifted and scaled by before they are multiplied."""

    query: Tensor  # (heads, group, n, d)
    key: Tensor  # (heads, m, d)
    value: Tensor  # (heads, m, value_dim)
    centre: Tensor | None  # (heads, 1, d): subtracted from keys
    balance: Tensor  # (heads, 1, 1): queries times it, keys over it, so that features of both are of one size


class Sweep:
    """Features of tiles of one batch of heads, with room that is used again."""

    def __init__(self, heads: Heads, formula: Formula) -> None:
        import torch

        self.torch, self.heads, self.formula = torch, heads, formula
        self.dtype = heads.balance.dtype
        self.batch, self.group, self.queries, self.d = heads.query.shape
        self.keys = heads.key.shape[1]
        self.rows, _ = formula.tiles(self.group)
        self.weights = torch.from_numpy(formula.weights).to(heads.balance.device)
        self._room: dict[tuple[str, int], FeatureRows] = {}

    def tiles(self, length: int) -> list[tuple[int, int]]:
        """Rows [low, high) of each tile."""
        return [(low, min(low + self.rows, length)) for low in range(0, length, self.rows)]

    def _tile(self, side: str, rows: int) -> FeatureRows:
        if (side, rows) not in self._room:
            self._room[side, rows] = FeatureRows(self.formula.monomials, self.batch, rows, self.heads.balance)
        return self._room[side, rows]

    @property
    def query_factor(self) -> Tensor:
        """What queries are multiplied by."""
        return self.heads.balance * self.formula.scale

    @property
    def key_factor(self) -> Tensor:
        """What centred keys are multiplied by."""
        return 1 / self.heads.balance

    def query_rows(self, low: int, high: int) -> FeatureRows:
        """Features of these queries, those of a whole group one after the other."""
        rows = self.heads.query[:, :, low:high].flatten(1, 2)
        # Queries and keys of a dense run are never needed at once and share their room.
        tile = self._tile("queries" if self.formula.causal else "rows", rows.shape[1])
        tile.load(rows, self.query_factor)
        return tile

    def key_rows(self, low: int, high: int) -> FeatureRows:
        """Features of these keys."""
        tile = self._tile("keys" if self.formula.causal else "rows", high - low)
        tile.load(self.heads.key[:, low:high], self.key_factor, self.heads.centre)
        return tile

    def values(self, low: int, high: int, columns: tuple[int, int]) -> Tensor:
        """These columns of [1, V] at these keys."""
        first, stop = columns
        part = self.heads.value[:, low:high, max(first - 1, 0) : stop - 1].to(self.dtype)
        return self.torch.nn.functional.pad(part, (1, 0), value=1.0) if first == 0 else part

    def no_state(self, columns: tuple[int, int]) -> Tensor:
        """A state without any rows. Sums over tiles are kept in float64: a million rows then round like one tile."""
        width = columns[1] - columns[0]
        shape = (self.batch, self.formula.monomials.count, width)
        return self.heads.balance.new_zeros(shape, dtype=self.torch.float64)

    def add(self, state: Tensor, tile: FeatureRows, values: Tensor) -> None:
        """state += features^T values."""
        length = self.formula.sum_length
        for which, features in tile.blocks():
            for some, of_values in zip(features.split(length, 2), values.split(length, 1), strict=True):
                state[:, which].add_(self.torch.bmm(some, of_values))

    def weighted(self, state: Tensor) -> Tensor:
        """The state as products with it need it: weighted, and transposed, which is the faster way to multiply."""
        return (state * self.weights).to(self.dtype).transpose(1, 2).contiguous()

    def times(self, tile: FeatureRows, weighted: Tensor) -> Tensor:
        """features times a weighted state: (heads, rows, columns)."""
        length = self.formula.sum_length
        total = None
        for which, features in tile.blocks():
            for some, of_state in zip(features.split(length, 1), weighted[:, :, which].split(length, 2), strict=True):
                part = self.torch.bmm(of_state, some)
                total = part if total is None else total.to(self.torch.float64).add_(part)
        assert total is not None
        return total.to(self.dtype).transpose(1, 2)

    def pull(self, tile: FeatureRows, weighted: Tensor, gradient: Tensor) -> None:
        """Hand the gradient of ``times`` back to the tile."""
        for which in tile.pieces():
            tile.pull(which, self.torch.bmm(weighted[:, :, which].transpose(1, 2), gradient.transpose(1, 2)))

    def scores(self, x: FeatureRows, y: FeatureRows) -> Tensor:
        """s_ij of a tile of queries and one of keys: (heads, group x rows, keys)."""
        return self.torch.bmm(x.variables.transpose(1, 2), y.variables)

    def masked(self, tile: Tensor) -> Tensor:
        """The tile on the diagonal with zeros above it, in place, for each query head of the group."""
        tile.view(self.batch, self.group, -1, tile.shape[-1]).tril_()
        return tile


def polynomial_of(coefficients: tuple[float, ...], scores: Tensor) -> Tensor:
    """Horner's rule on a tile."""
    total = scores * coefficients[-1] + coefficients[-2] if len(coefficients) > 1 else None
    if total is None:
        return scores.new_full(scores.shape, coefficients[0])
    for c in coefficients[-3::-1]:
        total.mul_(scores).add_(c)
    return total


def head_tiles(formula: Formula, heads: int, group: int) -> Iterator[slice]:
    """Batches of KV heads that run together."""
    _, together = formula.tiles(group)
    return (slice(low, min(low + together, heads)) for low in range(0, heads, together))
