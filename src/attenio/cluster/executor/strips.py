"""A rank's passes where causal work is cut into strips of rows: everything goes straight to where it is needed.

    send own queries and keys to those that compute with them, and receive those of one's own part
    pass on the keys of others that are one's to pass on
    forward:   O, lse of the part, with those keys last;  send them home;  add up what comes home
    backward:  dQ, dK, dV of the part;  send them home;  add up what comes home

A rank has one group of heads; its own tokens it has with all heads. What comes home is added in the order of ranks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attenio.cluster.executor.assignment import Assignment
from attenio.cluster.executor.backward import KEYS as KEYS_AGAIN
from attenio.cluster.executor.backward import OF_KEYS, OF_QUERIES, ROWS
from attenio.cluster.executor.blocks import Block, Outputs, Rows, Sum, projected_outputs, row_products
from attenio.cluster.executor.forward import KEYS, OUTPUTS, QUERIES, Kept
from attenio.cluster.executor.messages import Shape, pack, packed_bytes, put, take, unpack, with_tokens
from attenio.cluster.executor.transport import Leg, Network, Posted
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Product, Strips
from attenio.cluster.strips.messages import Messages
from attenio.cluster.strips.words import traffic
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.workload import Direction, Workload

Between = Callable[[int, int], Tokens]


@dataclass(frozen=True, kw_only=True)
class StripsPart:
    """A rank of a layout in strips, and its network."""

    workload: Workload
    strips: Strips
    network: Network
    scale: float

    @property
    def rank(self) -> int:
        """Which of the ranks it is."""
        return self.network.rank

    @cached_property
    def others(self) -> list[int]:
        """All other ranks."""
        return [rank for rank in range(self.strips.devices) if rank != self.rank]

    def messages(self, direction: Direction) -> Messages:
        """What travels in a pass."""
        relays = traffic(self.workload.towards(direction), self.strips).relays
        return Messages(strips=self.strips, tokens=self.workload.keys, relays=relays)

    @cached_property
    def work(self) -> Assignment:
        """The causal band, for blocks."""
        return Assignment(heads=self.strips.heads, queries=(), keys=(), pairs=(), below=-UNBOUNDED, above=0)

    def of_group(self, tensor: Tensor, rank: int) -> Tensor:
        """The heads that a rank computes."""
        return tensor.chunk(self.strips.heads, 1)[rank % self.strips.heads]

    def blocks(self, rows: Tokens, keys: Tokens, held: Product) -> Iterator[tuple[Block, slice, slice]]:
        """What one kernel computes, with its rows and its keys among those that are held."""
        for first, stop in rows.spans:
            for start, end in keys.spans:
                queries = max(first, start), stop
                seen = start, min(end, stop)
                if queries[0] < queries[1] and seen[0] < seen[1]:
                    (mine,), (theirs,) = held.rows.slices(Tokens((queries,))), held.keys.slices(Tokens((seen,)))
                    yield (
                        Block(queries=queries, keys=seen, work=self.work, scale=self.scale, is_part=True),
                        mine,
                        theirs,
                    )

    def exchange(self, leg: Leg, tensors: Sequence[Tensor], held: Tokens, sent: Between, *, whole: bool) -> "Exchange":
        """Send every rank the tokens of ``sent`` and receive one's own; of ``whole`` tensors the receiver's heads."""
        sends, sources, shapes = [], [], list[list[Shape]]()
        for other in self.others:
            theirs, mine = sent(self.rank, other), sent(other, self.rank)
            if len(theirs):
                parts = [take(self.of_group(each, other) if whole else each, held, theirs) for each in tensors]
                sends.append((other, pack(parts)))
            if len(mine):
                sources.append(other)
                shapes.append(
                    [with_tokens(self.of_group(each, self.rank) if whole else each, len(mine)) for each in tensors]
                )
        receives = [(source, packed_bytes(each)) for source, each in zip(sources, shapes, strict=True)]
        return Exchange(self.network.post(leg, sends, receives, tensors[0]), sources, shapes)

    def homecoming(self, leg: Leg, tensors: Sequence[Tensor], held: Tokens, sent: Between) -> "Exchange":
        """Send home what was found of tokens that ``sent`` had brought here, and receive what is of one's own."""
        return self.exchange(leg, tensors, held, lambda source, target: sent(target, source), whole=False)


@dataclass(frozen=True)
class Exchange:
    """Messages under way, and what they hold."""

    posted: Posted
    sources: list[int]
    shapes: list[list[Shape]]

    def wait(self) -> list[tuple[int, list[Tensor]]]:
        """From which rank what came, in the order of ranks."""
        came = self.posted.wait()
        return [(s, unpack(one, shapes)) for s, one, shapes in zip(self.sources, came, self.shapes, strict=True)]


class _Gathered:
    """Rows and keys of a rank's part; some keys come in a second round."""

    def __init__(self, part: StripsPart, direction: Direction, rows: Sequence[Tensor], keys: Sequence[Tensor]) -> None:
        self.part, self.messages = part, part.messages(direction)
        self.leg = KEYS if direction is Direction.FORWARD else KEYS_AGAIN
        self.held, self.own = self.messages.product(part.rank), self.messages.homes[part.rank]
        leg = QUERIES if direction is Direction.FORWARD else ROWS
        under_way = (
            part.exchange(leg, rows, self.own, self.messages.rows, whole=True),
            part.exchange(self.leg, keys, self.own, self.messages.keys_first, whole=True),
        )
        self.rows, self.keys = self._room(rows, self.held.rows), self._room(keys, self.held.keys)
        for exchange, into, held, sent in zip(
            under_way, (self.rows, self.keys), (self.held.rows, self.held.keys),
            (self.messages.rows, self.messages.keys_first), strict=True,
        ):  # fmt: skip
            self._put(exchange, into, held, sent)
        self.late = Tokens.union(self.messages.keys_second(other, part.rank) for other in part.others)

    def _room(self, tensors: Sequence[Tensor], held: Tokens) -> list[Tensor]:
        """Room for a part, with what is one's own in it."""
        found, here = [], self.own.both(held)
        for tensor in tensors:
            mine = self.part.of_group(tensor, self.part.rank)
            room = mine.new_empty(with_tokens(mine, len(held))[0])
            put(room, held, here, take(mine, self.own, here))
            found.append(room)
        return found

    def _put(self, exchange: Exchange, into: list[Tensor], held: Tokens, sent: Between) -> None:
        for source, tensors in exchange.wait():
            for room, tensor in zip(into, tensors, strict=True):
                put(room, held, sent(source, self.part.rank), tensor)

    def in_turn(self) -> Iterator[Tokens]:
        """Keys that are here, while others travel; then those."""
        passed = None
        if self.messages.relays:
            passed = self.part.exchange(self.leg, self.keys, self.held.keys, self.messages.keys_second, whole=False)
        yield self.held.keys.without(self.late)
        if passed is not None:
            self._put(passed, self.keys, self.held.keys, self.messages.keys_second)
            yield self.late


def forward(part: StripsPart, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Kept]:
    """Own outputs of all heads, and what is kept: own tokens with all heads."""
    gathered = _Gathered(part, Direction.FORWARD, [query], [key, value])
    (rows,), (keys, values), held = gathered.rows, gathered.keys, gathered.held
    found = Outputs.of_nothing(rows, value.shape[-1])
    for some in gathered.in_turn():
        for block, where, columns in part.blocks(held.rows, some, held):
            k, v = (block.computed_with(each[:, :, columns]) for each in (keys, values))
            mine = rows[:, :, where]
            for stretch, cut in block.stretches(mine):
                output, lse = stretch.attend(mine[:, :, cut], k, v)
                found.add(slice(where.start + cut.start, where.start + cut.stop), output, lse)
    output, lse = _merged(part, gathered, found, query)
    return output, Kept(query=query, key=key, value=value, output=output, lse=lse)


def _merged(part: StripsPart, gathered: _Gathered, found: Outputs, query: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and log-sum-exps of own rows, with what comes home."""
    messages, own, dtype = gathered.messages, gathered.own, query.dtype
    partial = [found.lse, found.output.to(dtype)]
    coming = part.homecoming(OUTPUTS, partial, gathered.held.rows, messages.rows)
    width = found.output.shape[-1]
    wholes = [Outputs.of_nothing(each, width) for each in query.chunk(part.strips.heads, 1)]
    here = own.both(gathered.held.rows)
    mine = [take(each, gathered.held.rows, here) for each in (found.lse, found.output)]
    for source, (lse, output) in sorted([(part.rank, mine), *coming.wait()], key=lambda each: each[0]):
        tokens = here if source == part.rank else messages.rows(part.rank, source)
        start = 0
        for where in own.slices(tokens):
            cut = slice(start, start + where.stop - where.start)
            wholes[source % part.strips.heads].add(where, output[:, :, cut], lse[:, :, cut])
            start = cut.stop
    return torch.cat([each.output for each in wholes], 1).to(dtype), torch.cat([each.lse for each in wholes], 1)


def backward(part: StripsPart, kept: Kept, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of own queries, keys and values, of all heads."""
    # on its way D is in single precision; it is made of wider sums, since the kernel rounds it once more
    precision = kept.lse.dtype if gradient.is_cuda else torch.float64
    delta = row_products(gradient, kept.output, precision).to(kept.lse.dtype)
    gathered = _Gathered(part, Direction.BACKWARD, [kept.lse, delta, kept.query, gradient], [kept.key, kept.value])
    (lse, delta, query, gradient), (keys, values), held = gathered.rows, gathered.keys, gathered.held
    rows = Rows(query=query, gradient=gradient, lse=lse, output=projected_outputs(gradient, delta))
    sums = [Sum(tuple(each.shape), lse) for each in (query, keys, values)]
    for some in gathered.in_turn():
        for block, where, columns in part.blocks(held.rows, some, held):
            k, v = (block.computed_with(each[:, :, columns]) for each in (keys, values))
            mine = rows.cut(where)
            for stretch, cut in block.stretches(mine.query):
                dq, dk, dv = stretch.differentiate(mine.cut(cut), k, v)
                sums[0].add(slice(where.start + cut.start, where.start + cut.stop), dq)
                sums[1].add(columns, dk)
                sums[2].add(columns, dv)
    messages, totals = gathered.messages, [each.total for each in sums]
    of_rows = part.homecoming(OF_QUERIES, [totals[0].to(query.dtype)], held.rows, messages.rows)
    of_keys = part.homecoming(OF_KEYS, [each.to(query.dtype) for each in totals[1:]], held.keys, messages.keys_home)
    (dq,) = _added(part, gathered, of_rows, (totals[:1], held.rows, messages.rows), [kept.query])
    dk, dv = _added(part, gathered, of_keys, (totals[1:], held.keys, messages.keys_home), [kept.key, kept.value])
    return dq, dk, dv


def _added(
    part: StripsPart,
    gathered: _Gathered,
    coming: Exchange,
    found: tuple[list[Tensor], Tokens, Between],
    like: list[Tensor],
) -> list[Tensor]:
    """Sums of own tokens over all ranks, in the order of ranks."""
    totals, held, sent = found
    own, h = gathered.own, part.strips.heads
    here = own.both(held)
    mine = (part.rank, [take(each, held, here) for each in totals])
    wholes = [[Sum(tuple(one.shape), totals[0]) for one in each.chunk(h, 1)] for each in like]
    for source, tensors in sorted([mine, *coming.wait()], key=lambda each: each[0]):
        tokens = here if source == part.rank else sent(part.rank, source)
        for whole, tensor in zip(wholes, tensors, strict=True):
            if len(tokens):
                whole[source % h].add_tokens(own, tokens, tensor)
    return [torch.cat([one.total for one in whole], 1).to(each.dtype) for whole, each in zip(wholes, like, strict=True)]
