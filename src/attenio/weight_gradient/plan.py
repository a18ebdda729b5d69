"""A plan of a weight gradient: which dataflow, which tiles, and what it will move."""

from dataclasses import dataclass
from enum import Enum

from attenio.names import member_named
from attenio.planning.plan import Tiles
from attenio.weight_gradient.workload import WeightGradient


class WeightDataflow(Enum):
    """The orders of computing a weight gradient, in the order in which equals are preferred."""

    RESIDENT_KEYS = "resident-keys"  # keys and weights stay, rows pass by once
    RESIDENT_ROWS = "resident-rows"  # one pass over the keys for each tile of rows, whose inputs stay
    FUSED = "fused"  # the same, and the inputs of the rows are read again when weights are updated
    FUSED_PROJECTIONS = "fused-projections"  # the same, but weights are updated in a phase of their own
    ONE_PASS = "one-pass"  # the same, over projections stored beforehand
    TWO_PASS = "two-pass"  # a forward pass, then one for the gradient of queries
    TILED_PRODUCTS = "tiled-products"  # scores travel, every product is tiled alone

    @classmethod
    def named(cls, name: "str | WeightDataflow") -> "WeightDataflow":
        """The dataflow with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "dataflow")


@dataclass(frozen=True, kw_only=True)
class WeightPlan:
    """One dataflow with its tiles for a weight gradient and a fast memory, and the exact words it moves and needs."""

    workload: WeightGradient
    fast_words: int
    dataflow: WeightDataflow
    tiles: Tiles
    moved_words: int
    peak_words: int
