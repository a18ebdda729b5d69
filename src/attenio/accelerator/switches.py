"""What of AttenIO's design is switched on."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Switches:
    """The three overlaps of communication with computation, and the parallel pattern of the softmax."""

    overlap_values: bool = True  # 1: values load while the scores of their keys are computed
    overlap_keys: bool = True  # 2: the next keys load while outputs are updated
    overlap_queries: bool = True  # 3: the next queries load while outputs are normalised
    parallel_softmax: bool = True  # pipelined maps over rows, in place of reductions along them

    @classmethod
    def none(cls) -> "Switches":
        """Everything off."""
        return cls(overlap_values=False, overlap_keys=False, overlap_queries=False, parallel_softmax=False)
