"""How ranks exchange messages: an interface of one call, and a ledger that counts every byte that is sent through it.

A message is a flat tensor of bytes from one rank to another. Messages of a stage are posted together and waited for
later, so that kernels run meanwhile. Ranks post stages in one global order, and the two ends of a message post it in
the same stage: that is what keeps backends that run a stage as one group, such as NCCL, from waiting in a circle.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from torch import Tensor

from attenio.cluster.words import Stage
from attenio.workload import Direction


class Leg(NamedTuple):
    """A stage of a pass."""

    direction: Direction
    stage: Stage


class Posted(Protocol):
    """Messages under way."""

    def wait(self) -> list[Tensor]:
        """The received messages in the order in which they were asked for; what was sent may be freed then."""
        ...


class Transport(Protocol):
    """One rank's end of the network."""

    @property
    def rank(self) -> int:
        """Which of the ranks this is."""
        ...

    @property
    def size(self) -> int:
        """How many ranks there are."""
        ...

    def agree(self, form: str) -> None:
        """Go on when all ranks come with the same call."""
        ...

    def post(self, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, int]], like: Tensor) -> Posted:
        """Send flat bytes to ranks and receive so many bytes from ranks, on the device of ``like``."""
        ...


@dataclass(kw_only=True)
class Ledger:
    """Bytes and messages that this rank sent and received, by stage."""

    sent_bytes: Counter[Leg] = field(default_factory=Counter)
    received_bytes: Counter[Leg] = field(default_factory=Counter)
    sent_messages: Counter[Leg] = field(default_factory=Counter)

    @property
    def total_sent_bytes(self) -> int:
        """In all stages."""
        return sum(self.sent_bytes.values())


@dataclass(frozen=True, kw_only=True)
class Network:
    """A transport with its ledger."""

    transport: Transport
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def rank(self) -> int:
        """Which of the ranks this is."""
        return self.transport.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.transport.size

    def agree(self, form: str) -> None:
        """Go on when all ranks come with the same call."""
        self.transport.agree(form)

    def post(
        self, leg: Leg, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, int]], like: Tensor
    ) -> Posted:
        """Post the messages of a stage, none of them empty, and count them."""
        for _, message in sends:
            self.ledger.sent_bytes[leg] += message.numel()
            self.ledger.sent_messages[leg] += 1
        for _, length in receives:
            self.ledger.received_bytes[leg] += length
        return self.transport.post(sends, receives, like)
