"""Keys and values of other places, one cell after another; one more cell is under way than is computed with."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attenio.cluster.executor.messages import take, with_tokens
from attenio.cluster.executor.part import Gathering, Part, Side
from attenio.cluster.executor.transport import Leg
from attenio.cluster.spans import Tokens


@dataclass(frozen=True, kw_only=True)
class KeyCell:
    """Keys and values of a place, those that are needed here."""

    cell: int
    tokens: Tokens
    key: Tensor
    value: Tensor


class KeyStream:
    """The key cells of other places that this rank computes with. Every rank posts its messages in the same order."""

    def __init__(self, part: Part, leg: Leg, key: Tensor, value: Tensor) -> None:
        self.part, self.leg, self.key, self.value = part, leg, key, value
        self._routes = [part.routes[step - 1] for step in part.work.key_steps]
        self._steps, self._posted = 0, list[Gathering]()

    @property
    def own(self) -> KeyCell:
        """The rank's own keys."""
        return KeyCell(cell=self.part.place, tokens=self.part.cell(Side.KEYS), key=self.key, value=self.value)

    @property
    def coming(self) -> int:
        """How many cells come."""
        return sum(len(self.part.work.columns(self.part.place, source)) > 0 for _, source in self._routes)

    def begin(self) -> None:
        """Post the messages of the next step, if there is one."""
        if self._steps >= len(self._routes):
            return
        part, (to, source) = self.part, self._routes[self._steps]
        self._steps += 1
        theirs, mine = part.work.columns(to, part.place), part.work.columns(part.place, source)
        held, both = part.cell(Side.KEYS), (self.key, self.value)
        sends = [take(tensor, held, theirs) for tensor in both] if len(theirs) else []
        shapes = [with_tokens(tensor, len(mine)) for tensor in both] if len(mine) else []
        self._posted.append(part.post(self.leg, to, sends, source, shapes, self.key))

    def __iter__(self) -> Iterator[tuple[int, int, KeyCell | None]]:
        """To whom keys went, from whom they came, and what came, step by step; the next step is under way by then."""
        for to, source in self._routes:
            self.begin()
            came = self._posted.pop(0).wait()  # what came is freed with the cell
            tokens = self.part.work.columns(self.part.place, source)
            cells = [KeyCell(cell=cell, tokens=tokens, key=key, value=value) for cell, (key, value) in came]
            del came
            yield to, source, cells.pop() if cells else None
