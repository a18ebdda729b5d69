"""Which way data flows through attention."""

from enum import Enum

from attenio.names import member_named


class Direction(Enum):
    """Which way data flows through attention."""

    FORWARD = "forward"  # O from Q, K, V
    BACKWARD = "backward"  # dQ, dK, dV from dO, with O and the log-sum-exp of every row at hand
    TRAINING = "training"  # one after the other: a training step

    # members are single, and every plan looks up by them: hashing a name takes longer
    __hash__ = object.__hash__

    @classmethod
    def named(cls, name: "str | Direction") -> "Direction":
        """The direction with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "direction")
