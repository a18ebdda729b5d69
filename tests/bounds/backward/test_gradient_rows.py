from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.backward.gradient_rows import (
    budget_for,
    even_weights,
    gradient_rows,
    weighed_products_per_epoch,
    weights,
)
from attenio.workload import Workload

from .epoch_sets import Epoch, epochs

laws = settings(max_examples=26, deadline=None, derandomize=True)
widths = st.integers(1, 256)


@laws
@given(epochs(), st.booleans(), st.integers(0, 60))
def test_no_epoch_of_whole_sets_does_more_than_it_is_granted(epoch: Epoch, step: bool, spare: int) -> None:
    query, key, value, output = epoch.products()
    for of in (weights, even_weights):
        weigh = of(float(epoch.q.shape[1]), float(epoch.v.shape[1]), step=step)
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
@given(widths, widths, st.booleans(), st.floats(-2.0, 3.0))
def test_no_number_of_held_pairs_lifts_an_epoch(d: int, dv: int, step: bool, size: float) -> None:
    weigh = weights(float(d), float(dv), step=step)
    budget = d * dv * 10.0**size
    share, part = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))  # of words, and of products with them
    held, area = share * budget, ((1 - share) * budget) ** 2 / 4
    work = area * (1 - part) + np.minimum(weigh[2] * held, max(weigh[:2]) * np.sqrt(held * area * part))
    most = weighed_products_per_epoch(budget, weigh)
    assert 0.99 * most <= work.max() <= most * (1 + 1e-9)
    assert budget_for(most, weigh) == pytest.approx(budget, rel=1e-9)


@laws
@given(epochs())
def test_a_pair_has_no_more_products_than_words_of_its_row_and_its_key_allow(epoch: Epoch) -> None:
    """Fresh ones weigh at most the product of the two numbers of words, any pair has at most its root."""
    (_, d), (_, dv) = epoch.q.shape, epoch.v.shape
    rows = (epoch.q, epoch.d_output, epoch.dq, epoch.output)
    keys = (epoch.k, epoch.v, epoch.dk, epoch.dv)
    words = np.outer(sum(part.sum(1) for part in rows), sum(part.sum(1) for part in keys))
    ds = epoch.dq.astype(int) @ epoch.k.T + epoch.q.astype(int) @ epoch.dk.T
    p = epoch.d_output.astype(int) @ epoch.dv.T + epoch.output.astype(int) @ epoch.v.T
    scored = np.outer(epoch.q.all(1), epoch.k.all(1))
    complete = scored & np.outer(epoch.d_output.all(1), epoch.v.all(1))
    for of in (weights, even_weights):
        with_ds, with_p, _ = of(float(d), float(dv), step=True)
        assert (with_ds * ds * complete + with_p * p * scored <= words * (1 + 1e-12)).all()
    assert ((ds + p) ** 2 <= words).all()


@laws
@given(st.integers(1, 10**6), widths, widths, st.floats(1.0, 100.0))
def test_narrow_values_give_the_stated_form(n: int, one: int, other: int, factor: float) -> None:
    dv, d = sorted((one, other))
    for direction, pair in (("backward", 2 * (2 * d + dv) * (d + dv)), ("training", 4 * (d + dv) ** 2)):
        fast_words = int(np.ceil(factor * 32 / 27 * (d + dv) ** 2))
        bound = gradient_rows(Workload(n=n, d=d, value_dim=dv, direction=direction), fast_words)
        assert bound.words >= n * n * pair / fast_words * (1 - 1e-9)
        assert bound.regime.startswith("large")


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.floats(0.01, 1000.0))
def test_equal_widths_give_twelve_and_sixteen_or_six_and_eight(n: int, d: int, factor: float) -> None:
    fast_words = int(np.ceil(factor * d * d))
    for direction, constant in (("backward", 12), ("training", 16)):
        words = gradient_rows(Workload(n=n, d=d, direction=direction), fast_words).words
        if factor >= 128 / 27:
            assert words >= constant * n * n * d * d / fast_words * (1 - 1e-9)
        if 3 * fast_words <= 256 / 27 * d * d:
            assert words >= constant * n * n * d / 2 / np.sqrt(fast_words) * (1 - 1e-9) - fast_words


def test_numbers_of_its_regime_are_in_full() -> None:
    for d, fast_words in ((512, 10**8), (512, 10**4), (8, 10**4), (8, 100)):
        workload = Workload(n=4096, d=d, direction="backward")
        for bound in bounds_for(workload, fast_words):
            assert "e+" not in bound.regime
    assert gradient_rows(workload, 10**4).regime == "large fast memory: Z G/M, G = 768"
    large = gradient_rows(Workload(n=4096, d=512, direction="backward"), 10**8)
    assert large.regime == "large fast memory: Z G/M, G = 3,145,728"
