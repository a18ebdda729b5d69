"""Which keys a query may see, asked a tile at a time: what can be skipped, what is whole, and what must be hidden.

Causality, windows and packed segments give every query one range of keys. Ids per token, block layouts and masks given
as tensors come on top. A score is required when all of them allow it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

# Further than any key is from any query.
UNBOUNDED = 2**40


class ProblemTile(NamedTuple):
    """A tile of the problem: sequences of the batch, KV heads, positions of queries, keys."""

    batch: slice
    heads: slice
    positions: slice
    keys: slice


class Visibility(NamedTuple):
    """Key j may be seen by query i if i + below <= j <= i + above and everything else that is given allows it too.

    ``bias`` (batch, heads, queries, keys, each may be 1) is added to scores, or hides them where it is False. ``first``
    and ``stop`` (batch or 1, queries) bound the keys of every query. Ids (batch or 1, tokens) must be equal. ``blocks``
    is a layout of booleans. ``group`` query heads share a KV head. Fields are given by name. The ranges may be those of
    so many packed ``segments``, 0 where nobody knows: they say nothing of what is visible, and kernels choose by them.
    """

    bias: Tensor | None = None
    first: Tensor | None = None
    stop: Tensor | None = None
    query_ids: Tensor | None = None
    key_ids: Tensor | None = None
    blocks: Tensor | None = None
    below: int = -UNBOUNDED
    above: int = UNBOUNDED
    query_block: int = 1
    key_block: int = 1
    segments: int = 0
    group: int = 1

    def flattened(self) -> dict[str, Any]:
        """Arguments of an operator, by name: everything but the group, which the heads tell."""
        return {name: getattr(self, name) for name in _FLAT}

    @classmethod
    def unflattened(cls, given: Any) -> "Visibility":
        """What an operator's arguments of these names say, beside ``query`` and ``key`` (batch, heads, tokens, d)."""
        group = given.query.shape[1] // max(1, given.key.shape[1])
        return cls(**{name: getattr(given, name) for name in _FLAT}, group=group)

    @property
    def adds(self) -> bool:
        """Whether something is added to scores, so that queries and keys alone do not bound them."""
        return self.bias is not None and self.bias.dtype != torch.bool

    def positions_of(self, part: ProblemTile) -> slice:
        """The stretch of the part's positions outside which none sees any of its keys; empty if there is none."""
        start = max(part.positions.start, part.keys.start - self.above)
        stop = min(part.positions.stop, part.keys.stop - self.below)
        if start >= stop or self._foreign(part) or self._no_block(part):
            return slice(start, start)
        if self.first is None or self.stop is None:
            return slice(start, stop)
        first, end = (_part(x, part.batch, slice(start, stop)) for x in (self.first, self.stop))
        seeing = ((first < part.keys.stop) & (end > part.keys.start)).any(0).nonzero()
        if len(seeing) == 0:
            return slice(start, start)
        return slice(start + int(seeing[0]), start + int(seeing[-1]) + 1)

    def is_whole(self, part: ProblemTile) -> bool:
        """Whether every score of the part is required as it is."""
        if self.bias is not None or self.query_ids is not None or self.blocks is not None:
            return False
        top, bottom = part.positions.start, part.positions.stop - 1
        if bottom + self.below > part.keys.start or top + self.above < part.keys.stop - 1:
            return False
        if self.first is None or self.stop is None:
            return True
        first, stop = (_part(x, part.batch, part.positions) for x in (self.first, self.stop))
        return bool(int(first.max()) <= part.keys.start and int(stop.min()) >= part.keys.stop)

    def hide(self, scores: Tensor, part: ProblemTile, factor: float) -> None:
        """Add the bias, times ``factor``, to scores (batch, KV heads, positions, group, keys); hidden ones become -inf.

        ``scores`` may be any view: a transposed one for key-stationary nests.
        """
        if self.bias is not None:
            tile = self.bias_tile(self.bias, part)
            if self.bias.dtype == torch.bool:
                scores.masked_fill_(~tile, -torch.inf)
            else:
                scores.add_(tile.to(scores.dtype), alpha=factor)
        hidden = self._hidden(part)
        if hidden is not None:
            scores.masked_fill_(hidden[:, None, :, None, :], -torch.inf)

    def bias_tile(self, bias: Tensor, part: ProblemTile) -> Tensor:
        """The part of a bias or of its gradient, as (batch, KV heads, positions, group, keys), each may be 1."""
        tile = _part(bias, part.batch, slice(None), part.positions, part.keys)
        if bias.shape[1] == 1:
            return tile[:, :, None].transpose(2, 3)
        heads = tile[:, part.heads.start * self.group : part.heads.stop * self.group]
        grouped: Tensor = heads.unflatten(1, (-1, self.group))
        return grouped.transpose(2, 3)

    def _hidden(self, part: ProblemTile) -> Tensor | None:
        """What ranges, ids and blocks hide, as (batch or 1, positions, keys)."""
        rows = torch.arange(part.positions.start, part.positions.stop)[:, None]
        keys = torch.arange(part.keys.start, part.keys.stop)
        hidden = []
        if self.below > -UNBOUNDED:
            hidden.append((keys < rows + self.below)[None])
        if self.above < UNBOUNDED:
            hidden.append((keys > rows + self.above)[None])
        if self.first is not None and self.stop is not None:
            first, stop = (_part(x, part.batch, part.positions)[:, :, None] for x in (self.first, self.stop))
            hidden.append((keys < first) | (keys >= stop))
        if self.query_ids is not None and self.key_ids is not None:
            mine, theirs = _part(self.query_ids, part.batch, part.positions), _part(self.key_ids, part.batch, part.keys)
            hidden.append(mine[:, :, None] != theirs[:, None, :])
        if self.blocks is not None:
            hidden.append(~self.blocks[rows // self.query_block, keys // self.key_block][None])
        if not hidden:
            return None
        together = hidden[0]
        for more in hidden[1:]:
            together = together | more
        return together

    def _foreign(self, part: ProblemTile) -> bool:
        """Whether ids of queries and of keys lie in ranges that do not meet."""
        if self.query_ids is None or self.key_ids is None:
            return False
        mine, theirs = _part(self.query_ids, part.batch, part.positions), _part(self.key_ids, part.batch, part.keys)
        return bool((mine.amax(1) < theirs.amin(1)).all() or (mine.amin(1) > theirs.amax(1)).all())

    def _no_block(self, part: ProblemTile) -> bool:
        if self.blocks is None:
            return False
        q, k = self.query_block, self.key_block
        rows = slice(part.positions.start // q, (part.positions.stop - 1) // q + 1)
        return not bool(self.blocks[rows, part.keys.start // k : (part.keys.stop - 1) // k + 1].any())


_FLAT = tuple(name for name in Visibility._fields if name != "group")


def _part(tensor: Tensor, *parts: slice) -> Tensor:
    """A part of a tensor whose dimensions of size 1 stand for any size."""
    return tensor[tuple(slice(None) if size == 1 else part for size, part in zip(tensor.shape, parts, strict=True))]
