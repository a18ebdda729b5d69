import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation import minimax
from attenio.planning.approximate.window_error import largest_variation, window_variation


@settings(max_examples=20, deadline=None, derandomize=True)
@given(eps=st.floats(1e-6, 0.9), share=st.floats(0.0, 1.0), seed=st.integers(0, 10**6))
def test_no_row_moves_further_than_the_formula_says(eps: float, share: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    outside = draw.dirichlet(np.full(6, 0.3)) * share
    weights = np.append(outside, 1 - share)
    for _ in range(20):
        off = np.append(draw.choice([-eps, eps, draw.uniform(-eps, eps)], size=6), 0.0)
        moved = weights * (1 + off) / (weights * (1 + off)).sum()
        assert np.abs(moved - weights).sum() / 2 <= largest_variation(eps, share) * (1 + 1e-9) + 1e-15


@settings(max_examples=20, deadline=None, derandomize=True)
@given(eps=st.floats(1e-4, 0.9), share=st.floats(0.05, 1.0))
def test_some_row_moves_as_far(eps: float, share: float) -> None:
    split = np.linspace(0, share, 20001)
    change = eps * (2 * split - share)
    gains = split * (eps - change) / (1 + change) + (1 - share) * np.maximum(0, -change) / (1 + change)
    assert abs(gains.max() / largest_variation(eps, share) - 1) < 1e-3


def test_a_wider_window_lets_weights_move_less() -> None:
    polynomial = minimax(1.0, 2)
    found = [window_variation(polynomial, keys=100, window=window) for window in (0, 1, 10, 50, 90, 100)]
    assert found == sorted(found, reverse=True)
    assert found[0] == polynomial.total_variation
    assert found[-1] == 0
