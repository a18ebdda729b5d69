import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.backward.gradient_epochs import (
    gradient_epochs,
    gradient_products_per_epoch,
    reuse_of_fresh_pairs,
)
from attenio.workload import Workload

from .epoch_sets import Epoch, epochs

laws = settings(max_examples=26, deadline=None, derandomize=True)
widths = st.integers(1, 256)


@laws
@given(epochs(), st.booleans(), st.integers(0, 60))
def test_no_epoch_of_whole_sets_does_more_products_than_it_is_granted(epoch: Epoch, step: bool, spare: int) -> None:
    d, dv = float(epoch.q.shape[1]), float(epoch.v.shape[1])
    query, key, value, output = epoch.products()
    words = epoch.words(step=step)
    granted = gradient_products_per_epoch(float(words + spare), reuse_of_fresh_pairs(d, dv, step=step))
    # With room to spare an epoch does no more for each of its words: the step to the whole run needs that.
    products = query + key + value + (output if step else 0)
    assert products * (words + spare) <= granted * words * (1 + 1e-9)


@laws
@given(widths, widths, st.booleans(), st.floats(1.0, 1e9), st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6))
def test_no_split_of_an_epoch_does_more_products_than_it_is_granted(
    d: int, dv: int, step: bool, budget: float, parts: list[float]
) -> None:
    total = sum(parts) or 1.0
    q, k, v, do, held, outputs = (budget * part / total for part in parts)
    fresh = min(q / d, do / dv) * min(k / d, v / dv)
    probabilities = held + q * k / d**2
    triples = (held + fresh) * (q + k) + probabilities * (do + (v if step else 0.0))
    granted = gradient_products_per_epoch(budget, reuse_of_fresh_pairs(float(d), float(dv), step=step))
    assert np.sqrt(outputs * triples) <= granted * (1 + 1e-9)


@laws
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_best_epoch_is_the_best_over_all_splits(budget: float, tau: float, one: float, two: float) -> None:
    first, second = sorted((one, two))
    x, y, z = first * budget, (second - first) * budget, (1 - second) * budget
    assert np.sqrt(z * (x * y + tau * y**3)) <= gradient_products_per_epoch(budget, tau) * (1 + 1e-9)


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.floats(5.0, 100.0))
def test_equal_widths_reach_ten_and_a_half(n: int, d: int, factor: float) -> None:
    fast_words = int(factor * d * d)
    stated = 10.528 * n * n * d * d / fast_words
    assert gradient_epochs(Workload(n=n, d=d, direction="backward"), fast_words).words >= stated * (1 - 1e-9)
    stated = 12.316 * n * n * d * d / fast_words
    assert gradient_epochs(Workload(n=n, d=d, direction="training"), fast_words).words >= stated * (1 - 1e-9)


@laws
@given(st.integers(10**4, 10**6), st.integers(8, 256), st.floats(0.0, 1.0))
def test_a_small_fast_memory_gives_three_products(n: int, d: int, share: float) -> None:
    fast_words = max(1, int(share * d * d))
    stated = 6 * n * n * d / fast_words**0.5 / (1 + 0.04 * fast_words / d**2) - fast_words
    assert gradient_epochs(Workload(n=n, d=d, direction="backward"), fast_words).words >= stated * (1 - 1e-9)
