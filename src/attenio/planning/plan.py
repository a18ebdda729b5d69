"""A plan: which dataflow, which tiles, and what it will move."""

from collections.abc import ItemsView, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from operator import index
from typing import Any, Literal, SupportsIndex, TypeGuard, get_args

from attenio.approximation import Certificate
from attenio.errors import InvalidInput
from attenio.machine import Boundary
from attenio.names import member_named, show_value
from attenio.planning.against_bounds import AgainstBounds
from attenio.workload import Direction, Workload


class Dataflow(Enum):
    """The known orders of computing attention, by the field's names."""

    STANDARD = "standard"
    FLAT = "flat"
    FLASH_ATTENTION_1 = "flash-attention-1"
    FLASH_ATTENTION_2 = "flash-attention-2"
    ATTENIO = "attenio"
    SQUARE_TILING = "square-tiling"
    RANK_ONE_TILING = "rank-one-tiling"
    SCORE_STATIONARY = "score-stationary"
    SPLIT_KEYS = "split-keys"
    STACKED_GROUPS = "stacked-groups"
    KEPT_KEYS = "kept-keys"
    KEPT_ROWS = "kept-rows"
    KEY_STATIONARY = "key-stationary"
    QUERY_STATIONARY = "query-stationary"
    TWO_PASS = "two-pass"
    TILED_PRODUCTS = "tiled-products"
    FUSED_VALUES = "fused-values"
    SPILLED_GRADIENTS = "spilled-gradients"
    KEPT_ROW_GRADIENTS = "kept-row-gradients"
    FEATURE_STATE = "feature-state"
    VALUE_COLUMNS = "value-columns"
    FEATURE_BLOCKS = "feature-blocks"
    WINDOW_AND_FEATURES = "window-and-features"
    FEATURE_GRADIENT = "feature-gradient"

    # Members are single, and plans look things up by them: hashing their names would take longer than most of that.
    __hash__ = object.__hash__

    @property
    def direction(self) -> Direction:
        """Whether it computes attention or its gradient."""
        gradient = self in _OF_THE_GRADIENT or self is Dataflow.FEATURE_GRADIENT
        return Direction.BACKWARD if gradient else Direction.FORWARD

    @property
    def is_approximate(self) -> bool:
        """Whether a polynomial takes the place of the exponential."""
        return self in _APPROXIMATE

    @classmethod
    def towards(cls, direction: Direction | str) -> "tuple[Dataflow, ...]":
        """The exact dataflows of one direction, in order; a training step is made of one of each.

        >>> [dataflow.value for dataflow in Dataflow.towards("backward")]
        ... # doctest: +NORMALIZE_WHITESPACE
        ['key-stationary', 'query-stationary', 'two-pass', 'tiled-products', 'fused-values', 'spilled-gradients',
         'kept-row-gradients']
        """
        wanted = Direction.named(direction)
        return tuple(m for m in cls if not m.is_approximate and wanted in (m.direction, Direction.TRAINING))

    @classmethod
    def approximating(cls, direction: Direction | str) -> "tuple[Dataflow, ...]":
        """The approximate dataflows of one direction, in order.

        >>> [dataflow.value for dataflow in Dataflow.approximating("forward")]
        ['feature-state', 'value-columns', 'feature-blocks', 'window-and-features']
        """
        wanted = Direction.named(direction)
        return tuple(m for m in cls if m.is_approximate and wanted in (m.direction, Direction.TRAINING))

    @classmethod
    def named(cls, name: "str | Dataflow") -> "Dataflow":
        """The dataflow with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "dataflow", _NICKNAMES)


ForwardDataflow = Literal[
    Dataflow.STANDARD,
    Dataflow.FLAT,
    Dataflow.FLASH_ATTENTION_1,
    Dataflow.FLASH_ATTENTION_2,
    Dataflow.ATTENIO,
    Dataflow.SQUARE_TILING,
    Dataflow.RANK_ONE_TILING,
    Dataflow.SCORE_STATIONARY,
    Dataflow.SPLIT_KEYS,
    Dataflow.STACKED_GROUPS,
    Dataflow.KEPT_KEYS,
    Dataflow.KEPT_ROWS,
]
GradientDataflow = Literal[
    Dataflow.KEY_STATIONARY,
    Dataflow.QUERY_STATIONARY,
    Dataflow.TWO_PASS,
    Dataflow.TILED_PRODUCTS,
    Dataflow.FUSED_VALUES,
    Dataflow.SPILLED_GRADIENTS,
    Dataflow.KEPT_ROW_GRADIENTS,
]
# What people call the two in conversation; the letters alone are nearer to other names.
_NICKNAMES = {
    **dict.fromkeys(("flash", "fa", "fa2", "fa-2", "flash2", "flashattention", "flash-attention"), "flash-attention-2"),
    **dict.fromkeys(("fa1", "fa-1", "flash1", "flash-1"), "flash-attention-1"),
}
_OF_THE_GRADIENT: frozenset[Dataflow] = frozenset(get_args(GradientDataflow))

ApproximateDataflow = Literal[
    Dataflow.FEATURE_STATE,
    Dataflow.VALUE_COLUMNS,
    Dataflow.FEATURE_BLOCKS,
    Dataflow.WINDOW_AND_FEATURES,
    Dataflow.FEATURE_GRADIENT,
]
_APPROXIMATE: frozenset[Dataflow] = frozenset(get_args(ApproximateDataflow))


def is_exact_forward(dataflow: Dataflow) -> TypeGuard[ForwardDataflow]:
    """Whether it computes attention as defined."""
    return dataflow not in _OF_THE_GRADIENT and dataflow not in _APPROXIMATE


def is_exact_gradient(dataflow: Dataflow) -> TypeGuard[GradientDataflow]:
    """Whether it computes the gradient as defined."""
    return dataflow in _OF_THE_GRADIENT


def is_approximate(dataflow: Dataflow) -> TypeGuard[ApproximateDataflow]:
    """Whether a polynomial takes the place of the exponential."""
    return dataflow in _APPROXIMATE


class TileRule(Enum):
    """Where tiles come from."""

    BEST = "best"  # the exact-count minimum over all feasible integer tiles
    PUBLISHED = "published"  # the rule of the paper that introduced the dataflow
    GIVEN = "given"  # the caller's own


# Tiles that have rows of all heads of a group, in dataflows whose other tiles are of one head.
OF_GROUPS = frozenset(("stacked_rows", "group_positions"))
# Forward dataflows that take heads of a group as rows of one head where every row needs every key, as gradients do.
OF_ROWS_OF_HEADS = frozenset((Dataflow.RANK_ONE_TILING, Dataflow.SCORE_STATIONARY))


def takes_heads_as_rows(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether heads of a group are rows of one head to a dataflow."""
    some = dataflow in OF_ROWS_OF_HEADS or dataflow.direction is Direction.BACKWARD
    return some and workload.heads_are_rows


@dataclass(frozen=True)
class Tiles(Mapping[str, int]):
    """Named tile sizes, in the order the dataflow lists them; hashable. Approximations have their degree among them.

    >>> Tiles.of(query_tile=4, key_tile=1)["query_tile"]
    4
    """

    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **sizes: int) -> "Tiles":
        """Tiles from keywords."""
        return cls(tuple([(name, _whole(name, size)) for name, size in sizes.items()]))

    # A handful of names is found soonest by looking at each; searches ask millions of times.
    def __getitem__(self, name: str) -> int:
        for known, size in self.sizes:
            if known == name:
                return size
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        for known, _ in self.sizes:  # noqa: SIM110 - half of the time of any()
            if known == name:
                return True
        return False

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.sizes)

    def items(self) -> ItemsView[str, int]:
        """Names and sizes."""
        return dict(self.sizes).items()

    def __len__(self) -> int:
        return len(self.sizes)

    def __str__(self) -> str:
        return " ".join(f"{name}={size:,}" for name, size in self.sizes)


def _whole(name: str, size: object) -> int:
    """A size as an integer; NumPy's are taken, and what would be rounded is refused."""
    if type(size) is int:
        return size
    if isinstance(size, SupportsIndex) and not isinstance(size, bool):
        with suppress(TypeError):  # an array of several
            return index(size)
    raise InvalidInput(f"{name} is {show_value(size)}; give a whole number")


@dataclass(frozen=True)
class MovingTiles:
    """Tiles with the words that they move, as a search finds them."""

    moved_words: int
    tiles: Tiles


@dataclass(frozen=True, kw_only=True)
class Plan(AgainstBounds):
    """One dataflow with its tiles for a workload and a fast memory, and the exact words it moves and needs.

    ``certificate`` is there if it approximates, and says what it guarantees. ``boundary`` is where on a machine the
    words move; None in a plan for a number of words of fast memory.
    """

    workload: Workload
    fast_words: int
    dataflow: Dataflow
    tiles: Tiles
    rule: TileRule
    moved_words: int
    peak_words: int
    certificate: Certificate | None = None
    boundary: Boundary | None = field(default=None, compare=False, repr=False)

    @property
    def reads_probabilities(self) -> bool:
        """Whether these are tiled products that make no scores."""
        return self.dataflow is Dataflow.TILED_PRODUCTS and "gradient_keys" in dict(self.tiles)

    def facts(self) -> dict[str, Any]:
        """What it is, what it moves and holds, and how far that is from the bound."""
        return {
            "workload": str(self.workload),
            "dataflow": self.dataflow.value,
            "tiles": str(self.tiles),
            "moved_words": self.moved_words,
            "bound_words": (bound := self.bound).words,
            "gap": self.moved_words / bound.words,
            "bound": f"{bound.theorem} ({bound.strength.value})",
            "peak_words": self.peak_words,
            "fast_words": self.fast_words,
        }
