"""The forward pass of a rank.

    exchange heads within the place
    send own queries to the places that need them
    for each key cell, one's own first, while the next one travels:
        for the rows that see it:  O, lse += attention(rows, keys)
    send the outputs of other cells' rows home, with their lse, as soon as each is done
    add up the outputs of own rows that come home
    exchange heads back

Rows stay and keys pass. What comes home is added in the order of places, so that results repeat to the bit.
"""

from dataclasses import dataclass

from torch import Tensor

from attenio.cluster.executor.blocks import Outputs
from attenio.cluster.executor.key_stream import KeyCell, KeyStream
from attenio.cluster.executor.messages import put, take, with_tokens
from attenio.cluster.executor.part import Gathering, Part, Side
from attenio.cluster.executor.transport import Leg
from attenio.cluster.words import Stage
from attenio.workload import Direction

SCATTER = Leg(Direction.FORWARD, Stage.SCATTER_HEADS)
QUERIES = Leg(Direction.FORWARD, Stage.GATHER_QUERIES)
KEYS = Leg(Direction.FORWARD, Stage.GATHER_KEYS)
OUTPUTS = Leg(Direction.FORWARD, Stage.REDUCE_OUTPUTS)
RETURN = Leg(Direction.FORWARD, Stage.RETURN_HEADS)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What the backward pass begins with, of the tokens of the place and its share of the heads."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    lse: Tensor


def forward(part: Part, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Kept]:
    """Own outputs of all heads, and what is kept."""
    given = [(Side.QUERIES, query), (Side.KEYS, key), (Side.KEYS, value)]
    query, key, value = part.to_cells(SCATTER, given)
    stream = KeyStream(part, KEYS, key, value)
    output, lse = _whole(part, query, stream) if part.is_whole else _Forward(part, query, stream).run()
    (mine,) = part.from_cells(RETURN, [(Side.QUERIES, output)])
    return mine, Kept(query=query, key=key, value=value, output=output, lse=lse)


def _whole(part: Part, query: Tensor, stream: KeyStream) -> tuple[Tensor, Tensor]:
    """Outputs and log-sum-exps of rows that meet all their keys in one block: nothing is added to them."""
    rows = part.cell(Side.QUERIES)
    blocks = list(part.blocks(part.place, stream.own.tokens, rows, (part.place,)))
    if len(blocks) != 1 or blocks[0][1] != slice(0, len(rows)):
        return _Forward(part, query, stream).run()  # some rows see nothing
    ((block, _, columns),) = blocks
    return block.attend(query, stream.key[:, :, columns], stream.value[:, :, columns])


class _Forward:
    """One call in the middle of it: the rows that this rank has, and their outputs so far."""

    def __init__(self, part: Part, query: Tensor, stream: KeyStream) -> None:
        self.part, self.query, self.stream = part, query, stream
        self.own = part.cell(Side.QUERIES)
        self.rows = part.rows
        self.queries = query
        if self.rows != self.own:
            self.queries = query.new_empty(with_tokens(query, len(self.rows))[0])
            put(self.queries, self.rows, self.own, query)
        self.found = Outputs.of_nothing(self.queries, stream.value.shape[-1])

    def run(self) -> tuple[Tensor, Tensor]:
        """Outputs and log-sum-exps of the place's own rows."""
        part, stream, mine = self.part, self.stream, (self.part.place,)
        gathering = part.gather(QUERIES, [self.query], self.own, part.work.rows)
        stream.begin()
        self._attend(stream.own, mine)  # while queries and keys travel
        for cell, (came,) in gathering.wait():
            put(self.queries, self.rows, part.work.rows(part.place, cell), came)
        left = stream.coming
        if left:
            self._attend(stream.own, part.others)
        homecoming = [] if left else self._finish(stream.own)
        for _, _, keys in stream:
            if keys is not None:
                left -= 1
                if left:
                    self._attend(keys, (*part.others, *mine))
                else:
                    homecoming = self._finish(keys)
        return self._merged(homecoming)

    def _finish(self, keys: KeyCell) -> list[Gathering]:
        """The last keys: rows of other cells are sent home as soon as they are done, one's own come after those."""
        homecoming = []
        for to, source in self.part.routes:
            self._attend(keys, (to,))
            homecoming.append(self._exchange(to, source))
        if keys.cell != self.part.place:
            self._attend(keys, (self.part.place,))
        return homecoming

    def _attend(self, keys: KeyCell, cells: tuple[int, ...]) -> None:
        for block, rows, columns in self.part.blocks(keys.cell, keys.tokens, self.rows, cells):
            key, value = (block.computed_with(each[:, :, columns]) for each in (keys.key, keys.value))
            query = self.queries[:, :, rows]
            for stretch, where in block.stretches(query):
                output, lse = stretch.attend(query[:, :, where], key, value)
                self.found.add(slice(rows.start + where.start, rows.start + where.stop), output, lse)

    def _exchange(self, to: int, source: int) -> Gathering:
        """Send the outputs of another cell's rows home, and receive those of one's own from another place."""
        part, found, dtype = self.part, self.found, self.query.dtype
        theirs, mine = part.work.rows(part.place, to), part.work.rows(source, part.place)
        tensors: list[Tensor] = []
        if len(theirs):
            tensors = [take(found.lse, self.rows, theirs), take(found.output, self.rows, theirs).to(dtype)]
        lse, output = with_tokens(found.lse, len(mine)), with_tokens(found.output, len(mine))
        return part.post(OUTPUTS, to, tensors, source, [lse, (output[0], dtype)] if len(mine) else [], self.query)

    def _merged(self, homecoming: list[Gathering]) -> tuple[Tensor, Tensor]:
        output, lse = (take(x, self.rows, self.own) for x in (self.found.output, self.found.lse))
        whole = Outputs(output=output, lse=lse, met=[slice(0, len(self.own))])
        for gathering in homecoming:
            for cell, (their_lse, their_output) in gathering.wait():
                start = 0
                for where in self.own.slices(self.part.work.rows(cell, self.part.place)):
                    cut = slice(start, start + where.stop - where.start)
                    whole.add(where, their_output[:, :, cut], their_lse[:, :, cut])
                    start = cut.stop
        return whole.output.to(self.query.dtype), whole.lse
