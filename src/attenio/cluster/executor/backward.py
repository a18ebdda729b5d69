"""The backward pass of a rank.

    exchange heads of dO within the place;  D = dO . O
    send own queries, dO, D and lse to the places that need them
    for each key cell, one's own first, while the next one travels:
        for the rows that see it:  dQ += ...;  dK, dV of the cell
        send dK and dV of the cell home
    send dQ of other cells' rows home
    add up the dK, dV and dQ that come home
    exchange heads back

Sums are in single precision and travel in the type of the tensors. They are added in the order of places.
"""

from torch import Tensor

from attenio.cluster.executor.blocks import Rows, Sum, projected_outputs, row_products
from attenio.cluster.executor.forward import Kept
from attenio.cluster.executor.key_stream import KeyCell, KeyStream
from attenio.cluster.executor.messages import put, take, with_tokens
from attenio.cluster.executor.part import Gathering, Part, Side
from attenio.cluster.executor.transport import Leg
from attenio.cluster.spans import Tokens
from attenio.cluster.words import Stage
from attenio.workload import Direction

SCATTER = Leg(Direction.BACKWARD, Stage.SCATTER_GRADIENTS)
ROWS = Leg(Direction.BACKWARD, Stage.GATHER_QUERIES)
KEYS = Leg(Direction.BACKWARD, Stage.GATHER_KEYS)
OF_QUERIES = Leg(Direction.BACKWARD, Stage.REDUCE_QUERIES)
OF_KEYS = Leg(Direction.BACKWARD, Stage.REDUCE_KEYS)
RETURN = Leg(Direction.BACKWARD, Stage.RETURN_HEADS)


def backward(part: Part, kept: Kept, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of own queries, keys and values, of all heads."""
    (gradient,) = part.to_cells(SCATTER, [(Side.QUERIES, gradient)])
    found = _Backward(part, kept, gradient).run()
    del gradient
    mine = part.from_cells(RETURN, list(zip((Side.QUERIES, Side.KEYS, Side.KEYS), found, strict=True)))
    return mine[0], mine[1], mine[2]


class _Backward:
    """One call in the middle of it: rows, their dQ so far, and the gradients of own keys."""

    def __init__(self, part: Part, kept: Kept, gradient: Tensor) -> None:
        self.part, self.kept = part, kept
        self.own, self.held = part.cell(Side.QUERIES), part.cell(Side.KEYS)
        delta = row_products(gradient, kept.output, kept.lse.dtype)
        # What travels of a row, wider types first.
        self.sent = (kept.lse, delta, kept.query, gradient)
        self.mine = Rows(query=kept.query, gradient=gradient, lse=kept.lse, output=kept.output)
        self.stream = KeyStream(part, KEYS, kept.key, kept.value)
        self.of_rows = Sum(with_tokens(kept.query, len(part.rows))[0], kept.lse)
        self.of_keys = [Sum(tuple(each.shape), kept.lse) for each in (kept.key, kept.value)]

    def run(self) -> list[Tensor]:
        """Gradients of the place's own queries, keys and values."""
        part, stream = self.part, self.stream
        gathering = part.gather(ROWS, self.sent, self.own, part.work.rows)
        stream.begin()
        self._differentiate(stream.own, self.mine, self.own, (part.place,), self.of_keys)
        rows = self._gathered(gathering)
        self._differentiate(stream.own, rows, part.rows, part.others, self.of_keys)
        homecoming: list[Gathering] = []
        for to, source, keys in stream:
            found: list[Sum] = []
            if keys is not None:
                found = [Sum(tuple(each.shape), self.kept.lse) for each in (keys.key, keys.value)]
                self._differentiate(keys, rows, part.rows, (*part.others, part.place), found)
            for before in homecoming:
                self._add_keys(before)
            homecoming = [self._send_keys_home(to, source, found)]
        for last in homecoming:
            self._add_keys(last)
        dtype = self.kept.query.dtype
        return [self._of_queries().to(dtype), *(each.total.to(dtype) for each in self.of_keys)]

    def _differentiate(self, keys: KeyCell, rows: Rows, held: Tokens, cells: tuple[int, ...], into: list[Sum]) -> None:
        """Add what the rows of some cells give to their own gradients and to those of the keys."""
        for block, where, columns in self.part.blocks(keys.cell, keys.tokens, held, cells):
            key, value = (block.computed_with(each[:, :, columns]) for each in (keys.key, keys.value))
            mine = rows.cut(where)
            for stretch, part in block.stretches(mine.query):
                found = stretch.differentiate(mine.cut(part), key, value)
                into[0].add(columns, found[1])
                into[1].add(columns, found[2])
                (place,) = self.part.rows.slices(Tokens((stretch.queries,)))
                self.of_rows.add(place, found[0])

    def _gathered(self, gathering: Gathering) -> Rows:
        """All rows of this rank, in the order of their positions."""
        part, came = self.part, gathering.wait()
        if part.rows == self.own:
            return self.mine
        whole = [tensor.new_empty(with_tokens(tensor, len(part.rows))[0]) for tensor in self.sent]
        for cell, tensors in [(part.place, list(self.sent)), *came]:
            tokens = self.own if cell == part.place else part.work.rows(part.place, cell)
            for into, tensor in zip(whole, tensors, strict=True):
                put(into, part.rows, tokens, tensor)
        lse, delta, query, gradient = whole
        return Rows(query=query, gradient=gradient, lse=lse, output=projected_outputs(gradient, delta))

    def _send_keys_home(self, to: int, source: int, found: list[Sum]) -> Gathering:
        """Gradients of the keys that came go where these came from, those of own keys come from where they went."""
        part, dtype = self.part, self.kept.query.dtype
        mine = len(part.work.columns(to, part.place))
        shapes = [with_tokens(each, mine) for each in (self.kept.key, self.kept.value)] if mine else []
        return part.post(OF_KEYS, source, [each.total.to(dtype) for each in found], to, shapes, self.kept.query)

    def _add_keys(self, gathering: Gathering) -> None:
        for place, tensors in gathering.wait():
            tokens = self.part.work.columns(place, self.part.place)
            for into, tensor in zip(self.of_keys, tensors, strict=True):
                into.add_tokens(self.held, tokens, tensor)

    def _of_queries(self) -> Tensor:
        """dQ of own rows, with what comes home from other places."""
        part, dtype = self.part, self.kept.query.dtype
        homecoming, rows = [], self.of_rows.total
        for to, source in part.routes:
            theirs, mine = part.work.rows(part.place, to), part.work.rows(source, part.place)
            sends = [take(rows, part.rows, theirs).to(dtype)] if len(theirs) else []
            shapes = [with_tokens(self.kept.query, len(mine))] if len(mine) else []
            homecoming.append(part.post(OF_QUERIES, to, sends, source, shapes, self.kept.query))
        own = take(rows, part.rows, self.own)
        whole = Sum(tuple(own.shape), self.kept.lse)
        whole.add(slice(0, len(self.own)), own)
        for gathering in homecoming:
            for place, (tensor,) in gathering.wait():
                whole.add_tokens(self.own, part.work.rows(place, part.place), tensor)
        return whole.total
