"""Which sizes a granularity leaves to the tiles of a dataflow, by the names of these."""

from typing import NamedTuple

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.planning.words import band_turns
from attenio.planning.words.backward import kept_row_gradients, query_stationary
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.form import Phase
from attenio.planning.words.taking_turns import TakingTurns, shape_of, smallest_sizes

_OF_ROWS = frozenset(
    (
        "query_tile",
        "score_rows",
        "output_rows",
        "later_rows",
        "passing_queries",
        "query_rows",
        "gradient_rows",
        "resident_rows",
        "whole_rows",
    )
)
_OF_KEYS = frozenset(
    (
        "key_tile",
        "score_keys",
        "keys_per_split",
        "stationary_keys",
        "value_keys",
        "key_keys",
        "gradient_keys",
        "whole_keys",
        "summed_keys",
    )
)

# FLAT spills one row at a time.
_ONE_ROW = ("query_tile", "resident_keys")


class OddTile(NamedTuple):
    """A tile that is neither a multiple of its unit nor whole."""

    name: str
    size: int
    unit: int
    whole: int


def odd_tile(problems: Problems, tiles: Tiles) -> OddTile | None:
    """The first tile of rows or keys that is neither a multiple of the unit nor the whole length, if one is.

    Heads that share a tile of queries lie one under the other, so that their rows together are the multiple. Heads,
    columns and resident scores may be any number.
    """
    heads = min(tiles.get("head_tile", 1), problems.group)
    for name, size in tiles.items():
        whole, unit = 1, 1
        if name in _OF_ROWS:
            unit = problems.granularity.positions(heads) if name == "query_tile" else problems.granularity.rows
            whole = problems.counts.most_rows
        elif name in _OF_KEYS:
            whole, unit = problems.counts.most_keys, problems.granularity.keys
        if size < whole and size % unit:
            return OddTile(name, size, unit, whole)
    return None


def keeps_to_granularity(problems: Problems, tiles: Tiles) -> bool:
    """Whether every tile of rows or keys is a multiple of the unit, or the whole length."""
    return odd_tile(problems, tiles) is None


def smallest_tiles(problems: Problems, names: tuple[str, ...]) -> Tiles:
    """The tiles of a dataflow that take the least room, which may not keep to the granularity if there are none."""
    counts = problems.counts
    if not {"turn_rows", "turn_keys"}.isdisjoint(names):
        return _fewest_turns(problems, names)
    if not {"masked_turn_rows", "masked_turn_keys"}.isdisjoint(names):
        return _fewest_band_turns(problems, names)
    least = dict.fromkeys(names, 1)
    for name in names:
        if name == "resident_keys":
            least[name] = 0
        elif name == "ring_keys" and counts.only_band is not None:  # all that a row needs
            least[name] = counts.longest_row
        elif name == "ring_rows" and counts.only_band is not None:
            least[name] = int(counts.ring_rows.of_two)
        elif name in _OF_ROWS and names != _ONE_ROW:
            least[name] = min(problems.granularity.rows, counts.most_rows)
        elif name in _OF_KEYS:
            least[name] = min(problems.granularity.keys, counts.most_keys)
    return Tiles.of(**least)


def _fewest_turns(problems: Problems, names: tuple[str, ...]) -> Tiles:
    """Sums that take turns, as many as there is room for."""
    phase = _phase_of(problems, names)
    assert isinstance(phase, TakingTurns)
    shape = shape_of(phase, problems.group, problems.counts.most_rows, problems.counts.most_keys)
    sizes = dict(zip(phase[:3], smallest_sizes(phase, shape), strict=True))
    return Tiles.of(**{name: sizes[name] for name in names})


def _fewest_band_turns(problems: Problems, names: tuple[str, ...]) -> Tiles:
    """The same under a mask; where no sums take turns, a place for every one."""
    phase, band = _phase_of(problems, names), problems.counts.only_band
    assert isinstance(phase, BandTurns)
    least = band_turns.Sizes(
        1, 1, problems.group * problems.counts.most_rows if phase.across else problems.counts.most_keys
    )
    if band is not None and problems.counts.sums_take_turns:
        least = band_turns.smallest_sizes(phase, band_turns.seen(band, problems.group, across=phase.across))
    sizes = dict(zip(phase[:3], least, strict=True))
    return Tiles.of(**{name: int(sizes[name]) for name in names})


def _phase_of(problems: Problems, names: tuple[str, ...]) -> Phase:
    every = (*kept_row_gradients.forms(problems.sizes), *query_stationary.forms(problems.sizes))
    (phase,) = next(form.phases for form in every if form.names == names)
    return phase
