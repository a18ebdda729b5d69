from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation import Scores
from attenio.planning.approximate.beside_window import BesideWindow, beside_window, hopeless

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def some(draw: st.DrawFn) -> BesideWindow:
    """Errors where rounding counts for as much as truncation, as it does for long rows."""
    keys = draw(st.integers(1, 40))
    found = beside_window(
        Scores(d=3, keys=keys, radius=draw(st.sampled_from([0.3, 1.0]))), draw(st.integers(1, 3)), keys
    )
    return replace(found, amplification=10 ** draw(st.floats(0, 5)))


def pairs(keys: int, most: int) -> list[tuple[int, int]]:
    return [(window, key_tile) for window in range(1, min(most, keys) + 1) for key_tile in range(1, window + 1)]


@LAWS
@given(errors=some(), share=st.floats(0, 1), most=st.integers(1, 45))
def test_no_window_is_narrower_than_the_narrowest(errors: BesideWindow, share: float, most: int) -> None:
    every = [errors.added(*pair) for pair in pairs(errors.keys, errors.keys)]
    tolerance = min(every) + share * (max(every) - min(every))
    keeping = [pair for pair in pairs(errors.keys, most) if errors.added(*pair) <= tolerance]
    found = errors.narrowest(tolerance, most)
    assert (found and found[0]) == min((window for window, _ in keeping), default=None)
    if found is not None:
        surest = errors.surest(found, most)
        assert errors.added(*surest) <= errors.added(*found) <= tolerance
        assert surest[1] <= surest[0] <= min(most, errors.keys)


@LAWS
@given(errors=some(), window=st.integers(1, 45), key_tile=st.integers(1, 45))
def test_wider_windows_truncate_less_and_round_more(errors: BesideWindow, window: int, key_tile: int) -> None:
    assert errors.truncation(window + 1, key_tile) <= errors.truncation(window, key_tile) * (1 + 1e-9)
    assert errors.rounding(window + 1, key_tile) >= errors.rounding(window, key_tile)
    assert errors.truncation(errors.keys, key_tile) == 0


@LAWS
@given(
    radius=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    keys=st.integers(1, 12),
    degree=st.integers(1, 3),
    at=st.floats(-6, -1),
)
def test_without_hope_no_degree_above_keeps_the_tolerance_either(
    radius: float, keys: int, degree: int, at: float
) -> None:
    scores, tolerance = Scores(d=2, keys=keys, radius=radius), 10**at
    if hopeless(scores, degree, keys, tolerance):
        for higher, pair in product(range(degree, degree + 4), pairs(keys, keys)):
            assert beside_window(scores, higher, keys).added(*pair) > tolerance
