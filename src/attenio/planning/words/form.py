"""What a dataflow moves and holds, as data: phases one after the other, each with tiles of its own.

A phase has all of the fast memory, so that its tiles are searched by themselves. Its words are weights of a few counts:
L(a) rows in live tiles of a rows, U(a) keys that these tiles read, R rows that need a key, T(a, b) rows times the tiles
of b keys that their tile visits, Z required scores. Weights and rooms are integers for the problems of one workload,
and arrays for many cases at once: an expression in this folder works with both.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter, mul
from typing import NamedTuple

from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts
from attenio.planning.words.all_keys import AllKeys
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.exchanged_keys import ExchangedKeys
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.last_columns import LastColumns
from attenio.planning.words.left_over import LeftOver
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.stacked_rows import StackedRows
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.turning_tiles import TurningTiles
from attenio.planning.words.waiting_rows import WaitingRows


@dataclass(frozen=True)
class CountSum:
    """A sum of counts of a mask, each by its name and with a weight: words before the mask is known.

    >>> print(3 * Sizes.rows - Sizes.touched_rows * 2)
    CountSum(weights={'rows': 3, 'touched_rows': -2})
    """

    weights: dict[str, Counts]

    # NumPy leaves the product of an array and a sum to the sum
    __array_ufunc__ = None

    def __add__(self, other: "CountSum") -> "CountSum":
        weights = dict(self.weights)
        for name, weight in other.weights.items():
            weights[name] = weights[name] + weight if name in weights else weight
        return CountSum(weights)

    def __sub__(self, other: "CountSum") -> "CountSum":
        return self + other * -1

    def __mul__(self, factor: Counts) -> "CountSum":
        return CountSum({name: weight * factor for name, weight in self.weights.items()})

    __rmul__ = __mul__

    @lazy
    def _counts(self) -> Callable[[object], tuple[Counts, ...]]:
        names = tuple(self.weights)
        if len(names) > 1:
            return attrgetter(*names)
        return lambda counted: tuple([getattr(counted, name) for name in names])

    def of(self, counted: object) -> Counts:
        """The sum for problems, or cases, whose counts are known."""
        return sum(map(mul, self.weights.values(), self._counts(counted)))


def least_of(sums: Iterable[CountSum]) -> CountSum:
    """A sum that none of these goes below: no count is negative.

    >>> print(least_of([3 * Sizes.rows - Sizes.keys, Sizes.rows + Sizes.scores]))
    CountSum(weights={'rows': 1, 'keys': -1, 'scores': 0})
    """
    every = list(sums)
    names = dict.fromkeys(name for each in every for name in each.weights)
    return CountSum({name: min(each.weights.get(name, 0) for each in every) for name in names})


class _Widths(NamedTuple):
    d: Counts  # width of queries and keys
    value_dim: Counts  # width of values
    key_words: Counts  # words of a key and its value where both are at hand
    intermediate_words: Counts  # words of one score, sum or statistic
    group: Counts  # query heads that share a KV head
    per_word: int = 1  # entries of keys and values that share a word


class Sizes(_Widths):
    """What words depend on beside tiles: widths, and counts of one query head, whatever they will be."""

    __slots__ = ()

    @property
    def one_key(self) -> Counts:
        """Words of a key."""
        return self.d if self.per_word == 1 else self.d // self.per_word

    @property
    def one_value(self) -> Counts:
        """Words of a value."""
        return self.value_dim if self.per_word == 1 else self.value_dim // self.per_word

    rows = CountSum({"rows": 1})  # n
    keys = CountSum({"keys": 1})  # m
    scores = CountSum({"scores": 1})  # required (Z)
    area = CountSum({"area": 1})  # scores, required or not
    touched_rows = CountSum({"touched_rows": 1})  # rows that need a key (R)
    touched_keys = CountSum({"touched_keys": 1})  # keys that a row needs (F)


class Held(NamedTuple):
    """Words that a tile of a rows and b keys holds: a*b*per_score + a*per_row + b*per_key + beside."""

    per_score: Counts
    per_row: Counts
    per_key: Counts = 0
    beside: Counts = 0


class RowTile(NamedTuple):
    """A tile of rows stays while keys pass: g*live*L(a) + loads*U(a) for every tile of heads + g*visits*T(a, split).

    ``heads`` names the tile of heads that share a tile; without, every head has its own. ``passing`` names the tile
    that passes; None if all keys are held at once. ``across``, keys stay and rows pass. ``split`` names a run of keys.
    """

    tile: str
    passing: str | None
    held: Held
    loads: Counts
    live: Counts = 0
    across: bool = False
    heads: str | None = None
    visits: Counts = 0
    split: str | None = None


class Rectangle(NamedTuple):
    """A tile of scores stays: g*(visits*T(a, b) + loads*U(a) - saved*L(a)), in every one of the rooms.

    ``every``, scores that the mask does not require are computed too. ``may_pass``, another form pays the words that
    ``saved`` costs at every visit instead, and has room for one more key.
    """

    rows: str
    keys: str
    held: tuple[Held, ...]
    visits: Counts
    loads: Counts
    saved: Counts = 0
    every: bool = False
    may_pass: bool = False


class Product(NamedTuple):
    """A tile of p rows and c columns of results stays: g*(Z*w*ceil(width/c) + U(p)*width).

    It holds ``extra`` more intermediates for every row, and one word that passes. ``across``, rows of results are keys.
    ``later``, the first c columns settle two of these, and tiles of q rows of the others hold one fewer: with
    r = ceil(width/c) of 2 or more g*(Z*w*r + U(p)*c + U(q)*(width - c) + (r+2)*n*w).
    """

    rows: str
    columns: str
    width: Counts
    extra: int = 1
    across: bool = False
    every: bool = False
    later: str | None = None


class Resident(NamedTuple):
    """The first r scores of a row stay, the others travel: g*per_score for each of these.

    It holds r*w + ``beside`` words.
    """

    tile: str
    per_score: Counts
    beside: Counts
    every: bool = False


class KeptTile(NamedTuple):
    """A tile of rows stays while keys pass, and slots keep keys for the next: g*(live*L(a) + loads*(U(a) - K(a, s))).

    K(a, s) are the keys that a tile finds in its s slots, which ``slots`` names. It holds a*per_row + s*per_slot +
    ``beside`` words.
    ``across``, keys stay and rows pass. ``together``, a position has the rows of all heads of a group, and keys pass
    once for all of them: live*L(a) + loads*(U(a) - K(a, s)).
    """

    tile: str
    slots: str
    per_row: Counts
    per_slot: Counts
    beside: Counts
    loads: Counts
    live: Counts = 0
    across: bool = False
    together: bool = False


class RollingTile(NamedTuple):
    """As a kept tile, with rows that come and go one by one: g*(live*R + loads*V(a, s)).

    V(a, s) are the keys that a rows in fast memory read beside s slots. Tiles are those with which no key is read more
    than a whole number of times: the keys that a row needs over that number, rounded up. Under a causal mask there is
    one slot, and as many rows as fit.

    With ``sums``, sums of some keys that leave stay for their second turn, ``per_sum`` words of each; others move
    ``state`` words at every turn: g*state*V(a, s + u) more (see ``rolling_sums``). A key that takes a single turn moves
    ``once`` words less. With a ``ring`` the first keys may stay until they are done.
    """

    tile: str
    slots: str
    per_row: Counts
    per_slot: Counts
    beside: Counts
    loads: Counts
    live: Counts = 0
    across: bool = False
    sums: str = ""
    per_sum: Counts = 0
    state: Counts = 0
    once: Counts = 0
    ring: bool = False


class KeyRing(NamedTuple):
    """Rows pass one by one, and slots hold all keys that one needs, so that no key comes twice: no words of its own.

    For a band, with as many slots as a row needs keys at most. It holds s*per_slot + ``beside`` words.
    """

    slots: str
    per_slot: Counts
    beside: Counts


class WholeRows(NamedTuple):
    """All scores that a rows need stay while keys pass: g*(live*L(a) + loads*U(a)).

    For a window, with as many scores of a row as it needs keys at most, l of them. It holds a*(l*per_score + per_row) +
    ``spare``*l + ``beside`` words; where the first rows need few keys the first tile may have more of them. ``across``,
    all scores that a keys need stay while rows of all heads of a group pass: live*L(a) + loads*U(a).
    """

    tile: str
    per_score: Counts
    per_row: Counts
    beside: Counts
    loads: Counts
    live: Counts = 0
    across: bool = False
    spare: Counts = 0


OfDense = WaitingRows | StackedRows | LastColumns | ExchangedKeys | StayingSums | TakingTurns | LeftOver | TurningTiles
OfBands = RollingTile | ExchangedRows | KeyRing | RowRing | WholeRows | CausalSums | BandTurns | AllKeys
Phase = RowTile | KeptTile | OfBands | OfDense | Rectangle | Product | Resident


class Form(NamedTuple):
    """Phases, the words of a run that no tile changes, and the words that are held whatever the tiles.

    ``names`` are the tiles in order, ``constant`` those that have one size. Of forms that move the same words the one
    with the ``fewest`` of a tile is preferred, then the first.
    """

    names: tuple[str, ...]
    phases: tuple[Phase, ...]
    fixed: CountSum
    least_held: Counts = 0
    constant: tuple[tuple[str, int], ...] = ()
    fewest: str | None = None

    @property
    def products(self) -> int:
        """How many products of stored scores it makes: each reads all of them once or more."""
        return sum(isinstance(phase, Product) for phase in self.phases)
