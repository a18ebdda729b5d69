"""Monomials of a tile of rows, made in place and thrown away: (heads, features, rows), so that products are contiguous.

load:    F_1 = rows, transposed, and a row of ones
         F_k[least variable a] = F_1[a] * F_(k-1)[no variable before a]          for k = 2 .. base
blocks:  F_base itself, or block by block F_(degree-base)[prefix] * F_base[no variable before the prefix's last]
pull:    the same products backwards, from the gradient of a block to that of the rows
"""

from collections.abc import Iterator

from attenio.approximation.running.loading import Tensor
from attenio.approximation.running.monomials import MOST_ROWS, Monomials


class FeatureRows:
    """Room for the features of ``rows`` rows of ``heads`` heads, of the type and on the device of ``like``."""

    def __init__(self, monomials: Monomials, heads: int, rows: int, like: Tensor) -> None:
        import torch

        self._torch = torch
        self.monomials, self.heads, self.rows = monomials, heads, rows
        base = monomials.base

        def room(count: int) -> Tensor:
            return like.new_empty(heads, count, rows)

        self._levels = [like.new_ones(heads, 1, rows), *(room(monomials.level(k + 1)) for k in range(base))]
        self._levels[1][:, -1] = 1
        # Views are made once: with them a product of rows is one call, and a tile has many.
        self._products = [step for k in range(2, base + 1) for step in self._steps(self._levels, k)]
        self._pieces = [] if base == monomials.degree else self._grouped()
        widest = max((stop - start for start, stop, _ in self._pieces), default=0)
        self._room = room(widest) if widest else None
        self._gradients: list[Tensor] = []
        self._backwards: list[tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]] = []

    def _steps(self, levels: list[Tensor], k: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each variable: its row, the features of degree k - 1 it multiplies, and where the products go."""
        m = self.monomials
        ends = [m.suffix(k, a) for a in range(m.d + 1)] + [m.level(k)]
        return [
            (levels[1][:, a : a + 1], levels[k - 1][:, m.suffix(k - 1, a) :], levels[k][:, ends[a] : ends[a + 1]])
            for a in range(m.d + 1)
        ]

    def _grouped(self) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """Runs of prefixes whose features fit in one block: first feature, end, (prefix, start in the base) of each."""
        m, pieces = self.monomials, []
        start = stop = 0
        group: list[tuple[int, int]] = []
        for prefix, last in enumerate(m.prefixes()):
            begin = m.suffix(m.base, last)
            size = m.level(m.base) - begin
            if group and stop + size - start > MOST_ROWS:
                pieces.append((start, stop, group))
                start, group = stop, []
            group.append((prefix, begin))
            stop += size
        return [*pieces, (start, stop, group)]

    def load(self, rows: Tensor, factor: float | Tensor, centre: Tensor | None = None) -> None:
        """Take (heads, rows, d), less the centre, times a factor, and make what is kept at once."""
        variables = self._levels[1][:, :-1]
        variables.copy_(rows.transpose(1, 2))
        if centre is not None:
            variables.sub_(centre.transpose(1, 2))
        variables.mul_(factor)
        multiply = self._torch.mul
        for row, shorter, out in self._products:
            multiply(row, shorter, out=out)

    @property
    def variables(self) -> Tensor:
        """The rows as loaded, transposed: (heads, d, rows)."""
        return self._levels[1][:, :-1]

    def pieces(self) -> Iterator[slice]:
        """Which features each block has, without making them."""
        return (slice(start, stop) for start, stop, _ in self._pieces or [(0, self.monomials.count, [])])

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Which features, and their values (heads, features, rows); a block is overwritten by the next."""
        if self._room is None:
            yield slice(0, self.monomials.count), self._levels[-1]
            return
        prefix_rows, base = self._levels[self.monomials.degree - self.monomials.base], self._levels[-1]
        for start, stop, group in self._pieces:
            at = 0
            for prefix, begin in group:
                size = base.shape[1] - begin
                out = self._room[:, at : at + size]
                self._torch.mul(prefix_rows[:, prefix : prefix + 1], base[:, begin:], out=out)
                at += size
            yield slice(start, stop), self._room[:, : stop - start]

    def pull(self, features: slice, gradient: Tensor) -> None:
        """Add what the gradient of a block gives to those of what it was made of; ``pulled`` collects them."""
        gradients = self._gradient_levels()
        if self._room is None:
            gradients[-1].add_(gradient)
            return
        low = self.monomials.degree - self.monomials.base
        group = next(group for start, _, group in self._pieces if start == features.start)
        at = 0
        for prefix, begin in group:
            size = self._levels[-1].shape[1] - begin
            piece, row = gradient[:, at : at + size], slice(prefix, prefix + 1)
            at += size
            gradients[-1][:, begin:].addcmul_(self._levels[low][:, row], piece)
            gradients[low][:, row] += (self._levels[-1][:, begin:] * piece).sum(1, keepdim=True)

    def pulled(self) -> Tensor:
        """The gradient of the loaded rows, (heads, rows, d), from all blocks pulled since the last call."""
        gradients = self._gradient_levels()
        for (row, shorter, _), (to_row, to_shorter, gradient) in self._backwards:
            to_shorter.addcmul_(row, gradient)
            to_row += (shorter * gradient).sum(1, keepdim=True)
        pulled = gradients[1][:, :-1].transpose(1, 2).clone()
        for gradient in gradients:
            gradient.zero_()
        return pulled

    def _gradient_levels(self) -> "list[Tensor]":
        """Gradients of the levels, and the products backwards; made when first needed: a forward pass never does."""
        if not self._gradients:
            self._gradients = [self._torch.zeros_like(level) for level in self._levels]
            for k in range(len(self._levels) - 1, 1, -1):
                values, gradients = self._steps(self._levels, k), self._steps(self._gradients, k)
                self._backwards += list(zip(values, gradients, strict=True))
        return self._gradients
