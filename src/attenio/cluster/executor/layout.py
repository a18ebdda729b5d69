"""A rank's passes where causal work has a layout, strips or a patchwork: all goes straight to where it is needed.

    send own queries and keys to those that compute with them, and receive those of one's own part
    pass on the rows of others that are one's to pass on, then the keys
    forward:   O, lse of the part, with those keys last;  send them home;  add up what comes home
    backward:  dQ, dK, dV of the part;  send them home;  add up what comes home

Own tokens a rank has with all heads; of every head group it has the rows and keys of its part. One message goes to a
rank in a stage, with all heads of which it needs tokens. What comes home is added in the order of ranks.
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
from attenio.cluster.layout import ByHead, Messages, Product
from attenio.cluster.layouts import messages_of
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.workload import Direction, Workload

# The tokens that go from one rank to another.
Between = Callable[[int, int], ByHead]


@dataclass(frozen=True, kw_only=True)
class LayoutPart:
    """A rank of a layout, and its network."""

    workload: Workload
    layout: Strips | Patchwork
    network: Network
    scale: float

    @property
    def rank(self) -> int:
        """Which of the ranks it is."""
        return self.network.rank

    @cached_property
    def others(self) -> list[int]:
        """All other ranks."""
        return [rank for rank in range(self.layout.devices) if rank != self.rank]

    def messages(self, direction: Direction) -> Messages:
        """What travels in a pass."""
        return messages_of(self.workload.towards(direction), self.layout)

    @cached_property
    def work(self) -> Assignment:
        """The causal band, for blocks."""
        return Assignment(heads=self.layout.heads, queries=(), keys=(), pairs=(), below=-UNBOUNDED, above=0)

    def blocks(self, head: int, held: Product, some: Tokens) -> Iterator[tuple[Block, slice, slice]]:
        """What one kernel computes of a head with some keys, with its rows and its keys among those that are held."""
        for (first, stop), (left, right) in self.layout.cells(self.workload.keys, self.rank, head):
            for start, end in some.within(left, right).spans:
                queries, seen = (max(first, start), stop), (start, min(end, stop))
                if queries[0] < queries[1]:
                    (mine,), (theirs,) = held.rows.slices(Tokens((queries,))), held.keys.slices(Tokens((seen,)))
                    yield (
                        Block(queries=queries, keys=seen, work=self.work, scale=self.scale, is_part=True),
                        mine,
                        theirs,
                    )

    def exchange(
        self, leg: Leg, tensors: Sequence[Sequence[Tensor]], held: Sequence[Tokens], sent: Between
    ) -> "Exchange":
        """Send every rank the tokens of ``sent`` and receive one's own; ``tensors`` by name and by head."""
        sends, sources, shapes = [], [], list[list[Shape]]()
        for other in self.others:
            theirs, mine = sent(self.rank, other), sent(other, self.rank)
            if any(len(each) for each in theirs):
                parts = [
                    take(tensor, has, some)
                    for heads in tensors
                    for tensor, has, some in zip(heads, held, theirs, strict=True)
                    if len(some)
                ]
                sends.append((other, pack(parts)))
            if any(len(each) for each in mine):
                sources.append(other)
                shapes.append(
                    [
                        with_tokens(tensor, len(some))
                        for heads in tensors
                        for tensor, some in zip(heads, mine, strict=True)
                        if len(some)
                    ]
                )
        receives = [(source, packed_bytes(each)) for source, each in zip(sources, shapes, strict=True)]
        return Exchange(self.network.post(leg, sends, receives, tensors[0][0]), sources, shapes)

    def homecoming(
        self, leg: Leg, tensors: Sequence[Sequence[Tensor]], held: Sequence[Tokens], sent: Between
    ) -> "Exchange":
        """Send home what was found of tokens that ``sent`` had brought here, and receive what is of one's own."""
        return self.exchange(leg, tensors, held, lambda source, target: sent(target, source))

    def by_head(self, tensor: Tensor) -> list[Tensor]:
        """A tensor of all heads, cut into head groups."""
        return list(tensor.chunk(self.layout.heads, 1))


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


def _arrivals(came: list[Tensor], tokens: tuple[Tokens, ...], names: int) -> Iterator[tuple[int, list[Tensor]]]:
    """A message of several names by head: heads of which it has tokens, and the tensors of each."""
    some = [head for head, each in enumerate(tokens) if len(each)]
    for index, head in enumerate(some):
        yield head, [came[name * len(some) + index] for name in range(names)]


class _Gathered:
    """Rows and keys of a rank's part, by name and by head; some come in a second round, keys while others are used."""

    def __init__(self, part: LayoutPart, direction: Direction, rows: Sequence[Tensor], keys: Sequence[Tensor]) -> None:
        self.part, self.messages = part, part.messages(direction)
        self.held, self.own = self.messages.held(part.rank), self.messages.homes[part.rank]
        self.held_rows, self.held_keys = [each.rows for each in self.held], [each.keys for each in self.held]
        forward = direction is Direction.FORWARD
        whole_rows, whole_keys = ([part.by_head(each) for each in some] for some in (rows, keys))
        own = [self.own] * part.layout.heads
        self.leg = KEYS if forward else KEYS_AGAIN
        rows_leg = QUERIES if forward else ROWS
        of_rows = part.exchange(rows_leg, whole_rows, own, self.messages.rows_first)
        of_keys = part.exchange(self.leg, whole_keys, own, self.messages.keys_first)
        self.rows, self.keys = self._room(whole_rows, self.held_rows), self._room(whole_keys, self.held_keys)
        self._put(of_rows, self.rows, self.held_rows, self.messages.rows_first)
        self._put(of_keys, self.keys, self.held_keys, self.messages.keys_first)
        if self.messages.rows_are_passed_on:
            passed = part.exchange(rows_leg, self.rows, self.held_rows, self.messages.rows_second)
            self._put(passed, self.rows, self.held_rows, self.messages.rows_second)
        second = [self.messages.keys_second(other, part.rank) for other in part.others]
        self.late = [Tokens.union(some) for some in zip(*second, strict=True)] or [Tokens(())] * part.layout.heads

    def in_turn(self) -> Iterator[list[Tokens]]:
        """By head: keys that are here, while others travel; then those."""
        passed = None
        if self.messages.is_passed_on:
            passed = self.part.exchange(self.leg, self.keys, self.held_keys, self.messages.keys_second)
        yield [keys.without(late) for keys, late in zip(self.held_keys, self.late, strict=True)]
        if passed is not None:
            self._put(passed, self.keys, self.held_keys, self.messages.keys_second)
            yield self.late

    def blocks(self) -> Iterator[tuple[int, Block, slice, slice]]:
        """All that kernels compute, and of which head: with the keys that are here, then with those that come late."""
        for some in self.in_turn():
            for head, (held, keys) in enumerate(zip(self.held, some, strict=True)):
                yield from ((head, *each) for each in self.part.blocks(head, held, keys))

    def _room(self, tensors: list[list[Tensor]], held: list[Tokens]) -> list[list[Tensor]]:
        found = []
        for heads in tensors:
            rooms = []
            for tensor, tokens in zip(heads, held, strict=True):
                room = tensor.new_empty(with_tokens(tensor, len(tokens))[0])
                here = self.own.both(tokens)
                put(room, tokens, here, take(tensor, self.own, here))
                rooms.append(room)
            found.append(rooms)
        return found

    def _put(self, exchange: Exchange, into: list[list[Tensor]], held: list[Tokens], sent: Between) -> None:
        for source, came in exchange.wait():
            tokens = sent(source, self.part.rank)
            for head, tensors in _arrivals(came, tokens, len(into)):
                for rooms, tensor in zip(into, tensors, strict=True):
                    put(rooms[head], held[head], tokens[head], tensor)


def forward(part: LayoutPart, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Kept]:
    """Own outputs of all heads, and what is kept: own tokens with all heads."""
    gathered = _Gathered(part, Direction.FORWARD, [query], [key, value])
    (rows,), (keys, values) = gathered.rows, gathered.keys
    found = [Outputs.of_nothing(each, value.shape[-1]) for each in rows]
    for head, block, where, columns in gathered.blocks():
        k, v = (block.computed_with(each[head][:, :, columns]) for each in (keys, values))
        mine = rows[head][:, :, where]
        for stretch, cut in block.stretches(mine):
            output, lse = stretch.attend(mine[:, :, cut], k, v)
            found[head].add(slice(where.start + cut.start, where.start + cut.stop), output, lse)
    output, lse = _merged(part, gathered, found, query)
    return output, Kept(query=query, key=key, value=value, output=output, lse=lse)


def _merged(part: LayoutPart, gathered: _Gathered, found: list[Outputs], query: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and log-sum-exps of own rows, with what comes home."""
    messages, own, dtype = gathered.messages, gathered.own, query.dtype
    partial = [[each.lse for each in found], [each.output.to(dtype) for each in found]]
    coming = part.homecoming(OUTPUTS, partial, gathered.held_rows, messages.rows)
    wholes = [Outputs.of_nothing(each, found[0].output.shape[-1]) for each in part.by_head(query)]
    here = tuple(own.both(each) for each in gathered.held_rows)
    mine = [
        take(getattr(each, name), held, some)
        for name in ("lse", "output")
        for each, held, some in zip(found, gathered.held_rows, here, strict=True)
        if len(some)
    ]
    for source, came in sorted([(part.rank, mine), *coming.wait()], key=lambda each: each[0]):
        tokens = here if source == part.rank else messages.rows(part.rank, source)
        for head, (lse, output) in _arrivals(came, tokens, 2):
            start = 0
            for where in own.slices(tokens[head]):
                cut = slice(start, start + where.stop - where.start)
                wholes[head].add(where, output[:, :, cut], lse[:, :, cut])
                start = cut.stop
    return torch.cat([each.output for each in wholes], 1).to(dtype), torch.cat([each.lse for each in wholes], 1)


def backward(part: LayoutPart, kept: Kept, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of own queries, keys and values, of all heads."""
    # on its way D is in single precision; it is made of wider sums, since the kernel rounds it once more
    precision = kept.lse.dtype if gradient.is_cuda else torch.float64
    delta = row_products(gradient, kept.output, precision).to(kept.lse.dtype)
    gathered = _Gathered(part, Direction.BACKWARD, [kept.lse, delta, kept.query, gradient], [kept.key, kept.value])
    (lse, delta_by_head, query, gradients), (keys, values) = gathered.rows, gathered.keys
    rows = [
        Rows(query=q, gradient=g, lse=one, output=projected_outputs(g, products))
        for q, g, one, products in zip(query, gradients, lse, delta_by_head, strict=True)
    ]
    sums = [[Sum(tuple(each.shape), kept.lse) for each in heads] for heads in (query, keys, values)]
    for head, block, where, columns in gathered.blocks():
        k, v = (block.computed_with(each[head][:, :, columns]) for each in (keys, values))
        mine = rows[head].cut(where)
        for stretch, cut in block.stretches(mine.query):
            dq, dk, dv = stretch.differentiate(mine.cut(cut), k, v)
            sums[0][head].add(slice(where.start + cut.start, where.start + cut.stop), dq)
            sums[1][head].add(columns, dk)
            sums[2][head].add(columns, dv)
    totals = [[each.total for each in heads] for heads in sums]
    messages, dtype = gathered.messages, kept.query.dtype
    travelling = [[each.to(dtype) for each in heads] for heads in totals]
    of_rows = part.homecoming(OF_QUERIES, travelling[:1], gathered.held_rows, messages.rows)
    of_keys = part.homecoming(OF_KEYS, travelling[1:], gathered.held_keys, messages.keys_home)
    (dq,) = _added(part, gathered, of_rows, (totals[:1], gathered.held_rows, messages.rows), [kept.query])
    keys_home = (totals[1:], gathered.held_keys, messages.keys_home)
    dk, dv = _added(part, gathered, of_keys, keys_home, [kept.key, kept.value])
    return dq, dk, dv


def _added(
    part: LayoutPart,
    gathered: _Gathered,
    coming: Exchange,
    found: tuple[list[list[Tensor]], list[Tokens], Between],
    like: list[Tensor],
) -> list[Tensor]:
    """Sums of own tokens over all ranks, in the order of ranks."""
    totals, held, sent = found
    own = gathered.own
    here = tuple(own.both(each) for each in held)
    mine = [
        take(total, has, some)
        for heads in totals
        for total, has, some in zip(heads, held, here, strict=True)
        if len(some)
    ]
    wholes = [[Sum(tuple(one.shape), totals[0][0]) for one in part.by_head(each)] for each in like]
    for source, came in sorted([(part.rank, mine), *coming.wait()], key=lambda each: each[0]):
        tokens = here if source == part.rank else sent(part.rank, source)
        for head, tensors in _arrivals(came, tokens, len(wholes)):
            for whole, tensor in zip(wholes, tensors, strict=True):
                whole[head].add_tokens(own, tokens[head], tensor)
    return [torch.cat([one.total for one in whole], 1).to(each.dtype) for whole, each in zip(wholes, like, strict=True)]
