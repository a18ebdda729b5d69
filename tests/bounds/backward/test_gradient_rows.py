from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.backward.gradient_rows import gradient_rows, weighed_products_per_epoch, weights
from attenio.workload import Workload

from .epoch_sets import Epoch, epochs

laws = settings(max_examples=26, deadline=None, derandomize=True)
widths = st.integers(1, 256)


@laws
@given(epochs(), st.booleans(), st.integers(0, 60))
def test_no_epoch_of_whole_sets_does_more_than_it_is_granted(epoch: Epoch, step: bool, spare: int) -> None:
    weigh = weights(float(epoch.q.shape[1]), float(epoch.v.shape[1]), step=step)
    query, key, value, output = epoch.products()
    work = weigh[0] * (query + key) + weigh[1] * (value + (output if step else 0))
    words = epoch.words(step=step)
    granted = weighed_products_per_epoch(float(words + spare), weigh)
    assert work * (words + spare) <= granted * words * (1 + 1e-9)


@laws
@given(widths, widths)
def test_no_choice_of_gradients_in_a_block_does_more_than_its_words_allow(d: int, dv: int) -> None:
    """The sixteen corners of the proof, in whole numbers: which of dQ, dK, dV and O are made in a block."""
    with_ds, with_p, pair = weights(float(d), float(dv), step=True)
    for dq, dk, output, value in product((0, 1), repeat=4):
        work = with_ds * d * (dq + dk) + with_p * dv * (output + value)
        assert work <= (d + dv + d * dq + dv * output) * (d + dv + d * dk + dv * value) * (1 + 1e-12)
    assert pair <= 4 * (d + dv) ** 2 * (1 + 1e-12)


@laws
@given(widths, widths, st.booleans(), st.floats(1.0, 1e9), st.floats(0.0, 1.0))
def test_no_number_of_held_pairs_lifts_an_epoch(d: int, dv: int, step: bool, budget: float, share: float) -> None:
    weigh = weights(float(d), float(dv), step=step)
    held, rest = share * budget, (1 - share) * budget
    extra = min(weigh[2] * held, max(weigh[:2]) * np.sqrt(held) * rest / 2)
    assert rest**2 / 4 + extra <= weighed_products_per_epoch(budget, weigh) * (1 + 1e-9)


@laws
@given(st.integers(1, 10**6), widths, widths, st.floats(1.25, 100.0))
def test_narrow_values_give_the_stated_form(n: int, one: int, other: int, factor: float) -> None:
    dv, d = sorted((one, other))
    for direction, pair in (("backward", 2 * (2 * d + dv) * (d + dv)), ("training", 4 * (d + dv) ** 2)):
        fast_words = int(np.ceil(factor * pair))
        bound = gradient_rows(Workload(n=n, d=d, value_dim=dv, direction=direction), fast_words)
        assert bound.words >= n * n * pair / fast_words * (1 - 1e-9)
        assert bound.regime.startswith("large") or direction == "training"


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.floats(15.0, 1000.0))
def test_equal_widths_give_twelve_and_sixteen(n: int, d: int, factor: float) -> None:
    fast_words = int(np.ceil(factor * d * d))
    stated = n * n * d * d / fast_words * (1 - 1e-9)
    assert gradient_rows(Workload(n=n, d=d, direction="backward"), fast_words).words >= 12 * stated
    fast_words = int(np.ceil(factor * 4 / 3 * d * d))
    stated = n * n * d * d / fast_words * (1 - 1e-9)
    assert gradient_rows(Workload(n=n, d=d, direction="training"), fast_words).words >= 16 * stated
