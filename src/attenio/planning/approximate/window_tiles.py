"""The degree, window and tile of keys of a window beside features: searched together, since each changes the others."""

from collections.abc import Iterator

from attenio.approximation import Kind, Terms, feature_count
from attenio.approximation.enclosure import MOST_RADIUS
from attenio.approximation.polynomials import MOST_DEGREE, polynomial_within
from attenio.errors import DoesNotFit
from attenio.planning.approximate import window_and_features
from attenio.planning.approximate.beside_window import BesideWindow, beside_window, hopeless
from attenio.planning.approximate.guarantees import certified, longest, scores_of
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.quantities import show_words
from attenio.workload import Workload


def window_tiles(workload: Workload, fast_words: int) -> Tiles:
    """Of all degrees and windows that fit and keep the tolerance one that guarantees much; all move the same words.

    Degrees below that needed without a window have a smaller state, which leaves room for the window that they need.
    """
    tolerance, needed = _tolerance(workload), certified(workload).needed_degree or 1
    best: tuple[float, Tiles] | None = None
    for degree, beside in _degrees(workload, fast_words):
        room = fast_words - _peak(workload, _tiles(degree, (1, 1)))
        most = 1 + room // (workload.d + workload.value_dim)
        narrowest = beside.narrowest(tolerance, most)
        if narrowest is not None:
            surest = beside.surest(narrowest, most)
            if best is None or beside.added(*surest) < best[0]:
                best = beside.added(*surest), _tiles(degree, surest)
        if best is not None and degree >= needed:
            break
    if best is None:
        raise DoesNotFit(_no_window(workload, fast_words))
    return best[1]


def _no_window(workload: Workload, fast_words: int) -> str:
    """Why there is no window: the fewest words of any degree and window that keep the tolerance, or that none do."""
    tolerance, keys, tried = _tolerance(workload), longest(workload), 0
    least: tuple[int, Tiles] | None = None
    for degree, beside in _degrees(workload, None):
        if least is not None and _peak(workload, _tiles(degree, (1, 1))) >= least[0]:
            break
        tried, narrowest = degree, beside.narrowest(tolerance, keys)
        if narrowest is not None:
            tiles = _tiles(degree, narrowest)
            least = min(least or (_peak(workload, tiles), tiles), (_peak(workload, tiles), tiles))
    name = Dataflow.WINDOW_AND_FEATURES.value
    if least is None:
        degrees = f"no degree up to {tried}" if tried else "no degree"
        return f"use exact: {degrees} keeps the tolerance of {tolerance:g} beside any window, rounding in fp32 included"
    return (
        f"{name} needs at least {show_words(least[0])} of fast memory ({least[1]}); the machine has {fast_words:,}:"
        " use exact, a larger fast memory or a larger tolerance"
    )


def _degrees(workload: Workload, fast_words: int | None) -> Iterator[tuple[int, BesideWindow]]:
    """The degrees whose state fits, or all, as long as rounding leaves hope; with what they guarantee."""
    tolerance, scores, keys = _tolerance(workload), scores_of(workload), longest(workload)
    for degree in range(1, MOST_DEGREE + 1):
        if feature_count(workload.d, degree) > Terms(tolerance=tolerance).most_features:
            return
        if fast_words is not None and _peak(workload, _tiles(degree, (1, 1))) > fast_words:
            return
        if hopeless(scores, degree, keys, tolerance):
            return
        # polynomials that reach zero are of no use beside any window
        if polynomial_within(Kind.MINIMAX, scores.radius, degree, 1 - 1e-9) is not None:
            yield degree, beside_window(scores, degree, keys)


def _tolerance(workload: Workload) -> float:
    """The tolerance, where there is hope to keep it."""
    certificate = certified(workload)
    if workload.entry_bound is None or certificate.scores.radius > MOST_RADIUS:
        raise DoesNotFit(f"use exact: {certificate.reason}")
    return certificate.terms.tolerance


def _tiles(degree: int, window: tuple[int, int]) -> Tiles:
    return Tiles.of(degree=degree, window=window[0], key_tile=window[1])


def _peak(workload: Workload, tiles: Tiles) -> int:
    return window_and_features.peak_words(Problems.separate(workload), tiles)
