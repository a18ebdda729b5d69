"""What a dataflow moves and holds, as data: phases one after the other, each with tiles of its own.

A phase has all of the fast memory, so that its tiles are searched by themselves. Its words are weights of a few counts:
L(a) rows in live tiles of a rows, U(a) keys that these tiles read, T(a, b) rows times the tiles of b keys that their
tile meets, Z required scores. Weights and rooms are integers for the problems of one workload, and arrays for many
cases at once: an expression in this folder works with both.
"""

from typing import NamedTuple, Protocol

from attenio.masks.patterns.pattern import Counts


class Sizes(Protocol):
    """What words depend on beside tiles; counts are of one query head."""

    @property
    def d(self) -> Counts:
        """Width of queries and keys."""

    @property
    def value_dim(self) -> Counts:
        """Width of values."""

    @property
    def key_words(self) -> Counts:
        """Words of a key and its value where both are at hand."""

    @property
    def intermediate_words(self) -> Counts:
        """Words of one score, sum or statistic."""

    @property
    def group(self) -> Counts:
        """Query heads that share a KV head."""

    @property
    def rows(self) -> Counts:
        """Query rows (n)."""

    @property
    def keys(self) -> Counts:
        """Keys (m)."""

    @property
    def scores(self) -> Counts:
        """Required scores (Z)."""

    @property
    def area(self) -> Counts:
        """Scores, required or not."""

    @property
    def touched_rows(self) -> Counts:
        """Rows that need a key (R)."""

    @property
    def touched_keys(self) -> Counts:
        """Keys that a row needs (F)."""


class Held(NamedTuple):
    """Words that a tile of a rows and b keys holds: a*b*per_score + a*per_row + b*per_key + beside."""

    per_score: Counts
    per_row: Counts
    per_key: Counts = 0
    beside: Counts = 0


class Rows(NamedTuple):
    """A tile of rows stays while keys pass: g*live*L(a) + loads*U(a) for every tile of heads + g*met*T(a, split).

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
    met: Counts = 0
    split: str | None = None


class Rectangle(NamedTuple):
    """A tile of scores stays: g*(met*T(a, b) + loads*U(a) - kept*L(a)), in every one of the rooms.

    ``every``, scores that the mask does not require are computed too.
    """

    rows: str
    keys: str
    held: tuple[Held, ...]
    met: Counts
    loads: Counts
    kept: Counts = 0
    every: bool = False


class Product(NamedTuple):
    """A tile of p rows and c columns of results stays: g*(Z*w*ceil(width/c) + U(p)*width).

    It holds ``extra`` more intermediates for every row, and one word that passes. ``across``, rows of results are keys.
    """

    rows: str
    columns: str
    width: Counts
    extra: int = 1
    across: bool = False
    every: bool = False


class Resident(NamedTuple):
    """The first r scores of a row stay, the others travel: g*per_score for each of these.

    It holds r*w + ``beside`` words.
    """

    tile: str
    per_score: Counts
    beside: Counts
    every: bool = False


Phase = Rows | Rectangle | Product | Resident


class Form(NamedTuple):
    """Phases, the words of a run that no tile changes, and the words that are held whatever the tiles.

    ``names`` are the tiles in order, ``constant`` those that have one size. Of forms that move the same words the one
    with the ``fewest`` of a tile is preferred, then the first.
    """

    names: tuple[str, ...]
    phases: tuple[Phase, ...]
    fixed: Counts
    least_held: Counts = 0
    constant: tuple[tuple[str, int], ...] = ()
    fewest: str | None = None
