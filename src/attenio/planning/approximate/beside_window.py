"""What a degree guarantees beside a window, and the narrowest window with which that keeps a tolerance.

A wider window truncates less and rounds more; a larger tile of keys leaves fewer of them inside, and rounds less up to
the square root of their number. So neither may be fixed before the other, nor the degree before both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, isqrt

from attenio.approximation import Kind, Polynomial, Scores, Summation, feature_count, polynomial
from attenio.approximation.rounding import Range, rounding_error, underflow, worst_amplification
from attenio.elements import ElementType
from attenio.planning.approximate.window_error import window_variation


@dataclass(frozen=True, kw_only=True)
class BesideWindow:
    """Errors of one polynomial beside windows of any width, for rows of up to ``keys`` keys.

    ``roundings`` are those that neither window nor tile change, ``lost`` is what underflow takes for each.
    """

    polynomial: Polynomial
    keys: int
    roundings: int
    amplification: float
    lost: float

    def truncation(self, window: int, key_tile: int) -> float:
        """The error of the polynomial; a tile that has just left is not yet replaced, unless no key ever leaves."""
        inside = self.keys if window >= self.keys else max(0, window - key_tile + 1)
        return 2 * window_variation(self.polynomial, keys=self.keys, window=inside)

    def rounding(self, window: int, key_tile: int) -> float:
        """The error of the sums: a row of the window is added up one key after the other."""
        tile = min(key_tile, self.keys)
        roundings = self.roundings + min(window, self.keys) + tile + -(-self.keys // tile)
        return rounding_error(roundings, self.amplification, lost=roundings * self.lost)

    def added(self, window: int, key_tile: int) -> float:
        """Both together: what the tolerance is about."""
        return self.truncation(window, key_tile) + self.rounding(window, key_tile)

    def narrowest(self, tolerance: float, most: int) -> tuple[int, int] | None:
        """The narrowest window of at most ``most`` keys that keeps the tolerance, and its tile of keys."""
        most, root = min(most, self.keys), isqrt(self.keys - 1) + 1
        best = None
        if most == self.keys and self.added(most, root) <= tolerance:
            best = (most, root)
        # no window is narrower than if keys left it one at a time and were added up in tiles of the root
        least = self._between((1, min(most, self.keys - 1)), (1, root), tolerance)
        if least is None:
            return best
        # a tile beyond the root leaves fewer keys inside and rounds no less
        for key_tile in _spread_first(min(most, root)):
            low = max(least, key_tile)
            high = min(most, self.keys - 1) if best is None else best[0] - 1
            window = self._between((low, high), (key_tile, key_tile), tolerance)
            best = best if window is None else (window, key_tile)
        return best

    def _between(self, ends: tuple[int, int], tiles: tuple[int, int], tolerance: float) -> int | None:
        """The narrowest window between two that keeps the tolerance, if ``tiles`` leave it and are added up.

        Windows too narrow even with the rounding of a narrower one are passed over, until there are none.
        """
        window, high = ends
        leaving, summed = tiles
        while window <= high:
            rounding = self.rounding(window, summed)
            if self.truncation(high, leaving) + rounding > tolerance:
                return None
            low, fits = window, high
            while low < fits:
                middle = (low + fits) // 2
                fine = self.truncation(middle, leaving) + rounding <= tolerance
                low, fits = (low, middle) if fine else (middle + 1, fits)
            if fits == window:
                return window
            window = fits
        return None

    def surest(self, narrowest: tuple[int, int], most: int) -> tuple[int, int]:
        """A window and tile that add less, if wider ones of up to ``most`` keys do, of some doublings of both."""
        most, root = min(most, self.keys), isqrt(self.keys - 1) + 1
        windows = _doublings(narrowest[0], most)
        tiles = sorted({*_doublings(1, root), narrowest[1]})
        pairs = [(window, tile) for window in windows for tile in tiles if tile <= window]
        return min([narrowest, *pairs], key=lambda pair: self.added(*pair))


def beside_window(scores: Scores, degree: int, keys: int) -> BesideWindow:
    """The errors of the best polynomial of a degree, for rows of up to ``keys`` keys."""
    chosen = polynomial(Kind.MINIMAX, scores.radius, degree, centre=scores.centre)
    features = feature_count(scores.d, degree)
    reach = Range(d=scores.d, keys=keys, features=features, product=scores.largest_product)
    return BesideWindow(
        polynomial=chosen,
        keys=keys,
        roundings=_fixed_roundings(scores.d, degree, keys),
        amplification=worst_amplification(chosen, scores.largest_product),
        lost=underflow(chosen, reach, 1, ElementType.FP32),
    )


def hopeless(scores: Scores, degree: int, keys: int, tolerance: float) -> bool:
    """Whether rounding alone exceeds the tolerance with this degree and all above it, beside any window.

    Sizes of terms are at least (1 - eps) s e^R, and the least weight is taken to be (1 - eps) s e^-R; a window of at
    least k keys in tiles of k takes 2k + keys/k roundings or more, and no k makes that less than sqrt(8 keys).
    """
    roundings = _fixed_roundings(scores.d, degree, keys) + isqrt(8 * keys)
    return rounding_error(roundings, exp(2 * scores.radius) * (1 - 1e-9)) > tolerance


def _fixed_roundings(d: int, degree: int, keys: int) -> int:
    one_by_one = Summation(key_tile=1, direct=True)
    roundings = one_by_one.roundings(d=d, degree=degree, features=feature_count(d, degree), keys=keys)
    return roundings - one_by_one.key_additions(keys)


def _doublings(first: int, last: int) -> list[int]:
    """The numbers first, 2 first, 4 first, ... and last."""
    numbers = []
    while first < last:
        numbers.append(first)
        first *= 2
    return [*numbers, last]


def _spread_first(last: int) -> Iterator[int]:
    """The numbers from 1 to ``last``, doublings first: they find a narrow window that rules most others out."""
    if last >= 1:
        yield from _doublings(1, last)
        yield from range(1, last + 1)
