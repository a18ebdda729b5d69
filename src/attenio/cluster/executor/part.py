"""One rank's part of a call: where it stands, and how heads are exchanged among the ranks of its place."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import torch
from torch import Tensor

from attenio.cluster.executor.assignment import Assignment
from attenio.cluster.executor.blocks import Block
from attenio.cluster.executor.messages import Shape, pack, packed_bytes, put, take, unpack, with_tokens
from attenio.cluster.executor.transport import Leg, Network, Posted
from attenio.cluster.spans import Tokens


class Side(Enum):
    """Which tokens a tensor holds."""

    QUERIES = "queries"
    KEYS = "keys"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A rank's place and head group, and its network."""

    work: Assignment
    network: Network
    scale: float

    @property
    def place(self) -> int:
        """Where it computes."""
        return self.network.rank // self.work.heads

    @property
    def group(self) -> int:
        """Which share of the heads it has."""
        return self.network.rank % self.work.heads

    @cached_property
    def routes(self) -> tuple[tuple[int, int], ...]:
        """Step by step to which other place it sends, and from which it receives."""
        places = self.work.places
        return tuple(((self.place + step) % places, (self.place - step) % places) for step in range(1, places))

    @cached_property
    def others(self) -> tuple[int, ...]:
        """All other places."""
        return tuple(to for to, _ in self.routes)

    @cached_property
    def rows(self) -> Tokens:
        """Queries that this rank computes with, and its own."""
        theirs = (self.work.rows(self.place, cell) for cell in self.others)
        return Tokens.union([self.cell(Side.QUERIES), *theirs])

    @cached_property
    def is_whole(self) -> bool:
        """Whether one block is all that this rank computes, and all that its rows and keys meet."""
        cells = self.cell(Side.QUERIES), self.cell(Side.KEYS)
        return self.work.places == 1 and all(len(each.spans) <= 1 for each in cells)

    def rank_at(self, place: int) -> int:
        """The rank of the same heads at another place."""
        return self.work.rank(place, self.group)

    def blocks(
        self, key_cell: int, keys: Tokens, rows: Tokens, cells: tuple[int, ...]
    ) -> Iterator[tuple[Block, slice, slice]]:
        """Scores of some cells' queries with a cell's keys: what one kernel computes, its rows and its keys."""
        work = self.work
        for span in work.seeing(self.place, key_cell, cells).spans:
            for start, stop in keys.spans:
                first, end = work.visible_queries((start, stop))
                queries = max(span[0], first), min(span[1], end)
                if queries[0] >= queries[1]:
                    continue
                first, end = work.visible_keys(queries)
                seen = max(start, first), min(stop, end)
                if seen[0] < seen[1]:
                    (mine,), (theirs,) = rows.slices(Tokens((queries,))), keys.slices(Tokens((seen,)))
                    part = not self.is_whole
                    yield Block(queries=queries, keys=seen, work=work, scale=self.scale, is_part=part), mine, theirs

    def cell(self, side: Side, place: int | None = None) -> Tokens:
        """The tokens of a place, by default of its own."""
        cells = self.work.query_cells if side is Side.QUERIES else self.work.key_cells
        return cells[self.place if place is None else place]

    def owned(self, side: Side, rank: int) -> Tokens:
        """The tokens of a rank."""
        spans = self.work.queries if side is Side.QUERIES else self.work.keys
        return Tokens.of(spans[rank])

    def to_cells(self, leg: Leg, tensors: Sequence[tuple[Side, Tensor]]) -> list[Tensor]:
        """Own tokens of all heads become all tokens of the place, of a share of the heads."""
        heads = self.work.heads
        if heads == 1:
            return [tensor for _, tensor in tensors]
        peers = [self.work.rank(self.place, group) for group in range(heads)]
        shares = [[tensor.chunk(heads, 1)[group] for _, tensor in tensors] for group in range(heads)]
        mine = list(zip(tensors, shares[self.group], strict=True))
        came = [[with_tokens(share, len(self.owned(side, peer))) for (side, _), share in mine] for peer in peers]
        received = self._among(leg, peers, shares, came, tensors[0][1])
        cells = []
        for index, ((side, _), share) in enumerate(mine):
            cell = self.cell(side)
            whole = share.new_empty(with_tokens(share, len(cell))[0])
            for peer, parts in zip(peers, received, strict=True):
                put(whole, cell, self.owned(side, peer), parts[index])
            cells.append(whole)
        return cells

    def from_cells(self, leg: Leg, cells: list[tuple[Side, Tensor]]) -> list[Tensor]:
        """The way back: all tokens of the place, of a share of the heads, become own tokens of all heads.

        A tensor at a time, and ``cells`` is emptied: messages and results of all at once are more than anything before.
        """
        found = []
        while cells:
            found.append(self._from_cell(leg, *cells.pop(0)))
        return found

    def _from_cell(self, leg: Leg, side: Side, cell: Tensor) -> Tensor:
        heads = self.work.heads
        if heads == 1:
            return cell
        peers = [self.work.rank(self.place, group) for group in range(heads)]
        shares = [[take(cell, self.cell(side), self.owned(side, peer))] for peer in peers]
        mine = shares[self.group][0]
        came = [[(tuple(mine.shape), mine.dtype)] for _ in peers]
        received = self._among(leg, peers, shares, came, cell)
        return torch.cat([parts[0] for parts in received], 1)

    def _among(
        self,
        leg: Leg,
        peers: list[int],
        shares: list[list[Tensor]],
        came: list[list[Shape]],
        like: Tensor,
    ) -> list[list[Tensor]]:
        """Send every peer its share; what each of them sent, and one's own share in its place."""
        others = [group for group in range(len(peers)) if group != self.group]
        posted = self.network.post(
            leg,
            [(peers[group], pack(shares[group])) for group in others],
            [(peers[group], packed_bytes(came[group])) for group in others],
            like,
        )
        found = dict(zip(others, posted.wait(), strict=True))
        return [
            shares[group] if group == self.group else unpack(found[group], came[group]) for group in range(len(peers))
        ]

    def gather(
        self, leg: Leg, tensors: Sequence[Tensor], held: Tokens, wanted: Callable[[int, int], Tokens]
    ) -> "Gathering":
        """Send every other place the tokens that it wants of this one, and receive those wanted here."""
        sends = []
        for place in self.others:
            tokens = wanted(place, self.place)
            if len(tokens):
                sends.append((self.rank_at(place), pack([take(tensor, held, tokens) for tensor in tensors])))
        cells = [cell for cell in self.others if len(wanted(self.place, cell))]
        shapes = [[with_tokens(tensor, len(wanted(self.place, cell))) for tensor in tensors] for cell in cells]
        receives = [(self.rank_at(cell), packed_bytes(each)) for cell, each in zip(cells, shapes, strict=True)]
        return Gathering(self.network.post(leg, sends, receives, tensors[0]), cells, shapes)

    def post(
        self, leg: Leg, to: int, tensors: Sequence[Tensor], source: int, shapes: list[Shape], like: Tensor
    ) -> "Gathering":
        """Send tensors to one place, if there are any, and receive from one place."""
        sends = [(self.rank_at(to), pack(tensors))] if tensors else []
        receives = [(self.rank_at(source), packed_bytes(shapes))] if shapes else []
        return Gathering(self.network.post(leg, sends, receives, like), [source] if shapes else [], [shapes])


@dataclass(frozen=True)
class Gathering:
    """Messages from other places, and what they hold."""

    posted: Posted
    cells: list[int]
    shapes: list[list[Shape]]

    def wait(self) -> list[tuple[int, list[Tensor]]]:
        """From which place what came."""
        messages = self.posted.wait()
        return [
            (cell, unpack(message, shapes))
            for cell, message, shapes in zip(self.cells, messages, self.shapes, strict=False)
        ]
