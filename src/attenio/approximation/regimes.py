"""Which way of computing attention moves least: a map over length, width, fast memory, reach of scores and tolerance.

Counts are those of the closed forms on docs/theory/approximate.md for one dense head, without the ceilings of ragged
tiles; the planner has the exact ones.

>>> regime_of(Setting(n=2**20, d=64, fast_words=262_144, radius=0.5, tolerance=1e-2)).way.value
'feature-state'
>>> regime_of(Setting(n=2**20, d=64, fast_words=262_144, radius=8.0, tolerance=1e-2)).way.value
'exact'
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from attenio.approximation.certificate import Certificate, Scores, Terms, certificate_for
from attenio.approximation.features import feature_count
from attenio.errors import DoesNotFit
from attenio.quantities import checked_count


class Way(Enum):
    """How attention is computed."""

    EXACT = "exact"  # rows of queries stay, keys stream past
    FEATURE_STATE = "feature-state"  # all sums over keys stay
    VALUE_COLUMNS = "value-columns"  # all features, some columns of V at a time
    FEATURE_BLOCKS = "feature-blocks"  # some features and some columns at a time


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of the map: a dense head of equal widths on a fast memory, and what is asked of it."""

    n: int
    d: int
    fast_words: int
    radius: float
    tolerance: float

    def __post_init__(self) -> None:
        checked_count("n", self.n)
        checked_count("d", self.d, most=2**16)
        checked_count("fast memory (words)", self.fast_words, most=2**60)


@dataclass(frozen=True, kw_only=True)
class Regime:
    """The way that moves least there, the words of every way that is possible, and the certificate."""

    setting: Setting
    way: Way
    words: dict[Way, int]
    certificate: Certificate


def regime_of(setting: Setting) -> Regime:
    """The way that moves least, among exact attention and whatever the certificate allows."""
    certificate = certificate_for(
        Scores(d=setting.d, keys=setting.n, radius=setting.radius), Terms(tolerance=setting.tolerance)
    )
    words = words_of_ways(setting, certificate.degree)
    if not words:
        raise DoesNotFit(
            f"{setting.fast_words:,} words of fast memory hold no row of width {setting.d}; use a larger memory"
        )
    way = min(words, key=lambda each: words[each])
    return Regime(setting=setting, way=way, words=words, certificate=certificate)


def regime_map(settings: Iterable[Setting]) -> Iterator[Regime]:
    """The regime of every setting, for instance of all of a grid."""
    return (regime_of(setting) for setting in settings)


def words_of_ways(setting: Setting, degree: int | None) -> dict[Way, int]:
    """Words that each way moves where it fits; only exact attention without a degree.

    >>> setting = Setting(n=2**20, d=64, fast_words=65_536, radius=1.0, tolerance=1e-2)
    >>> nd = setting.n * setting.d
    >>> [round(words / nd) for words in words_of_ways(setting, 2).values()]
    [4232, 8, 14]
    """
    words = {}
    n, d, fast = setting.n, setting.d, setting.fast_words
    rows = (fast - d) // (2 * d + 4)
    if rows >= 1:
        words[Way.EXACT] = 4 * n * d if 4 * n * d + 2 * n <= fast else 2 * n * d * (1 + math.ceil(n / rows))
    if degree is None:
        return words
    features, spare = feature_count(d, degree), fast - 2 * d - degree
    if features * (d + 1) <= spare:
        words[Way.FEATURE_STATE] = 4 * n * d
        return words
    if (columns := min(d + 1, spare // (features + 1))) >= 1:
        passes = math.ceil((d + 1) / columns)
        words[Way.VALUE_COLUMNS] = 2 * n * d * passes + 2 * n * d + n * passes
    blocks = _feature_blocks(setting, degree)
    return words if blocks is None else {**words, Way.FEATURE_BLOCKS: blocks}


def _feature_blocks(setting: Setting, degree: int) -> int | None:
    """The best size of a group of coordinates; blocks of features are multisets of ``degree`` groups."""
    n, d, fast = setting.n, setting.d, setting.fast_words
    best = None
    for size in range(1, d + 2):
        entries = min(max(degree, 1) * size, d)
        columns = min(d + 1, (fast - entries - degree) // (size**degree + 1))
        if columns < 1:
            break
        blocks = math.comb(math.ceil((d + 1) / size) + degree - 1, degree)
        words = blocks * math.ceil((d + 1) / columns) * n * (2 * entries + 3 * columns)
        best = words if best is None else min(best, words)
    return best
