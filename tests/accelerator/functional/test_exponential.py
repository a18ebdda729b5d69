"""The EXP unit's approximation, at every half-precision number that it can be given."""

import numpy as np
import pytest

from attenio.accelerator.functional.exponential import SMALLEST, ExpApproximation, exponential, relative_error

EVERY = -np.arange(0x7C00, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("kind", ExpApproximation)
def test_every_result_is_within_the_stated_error(kind: ExpApproximation) -> None:
    exact, found = np.exp(EVERY.astype(np.float64)), exponential(EVERY, kind).astype(np.float64)
    assert (np.abs(found - exact) <= relative_error(kind) * exact + SMALLEST / 2).all()


@pytest.mark.parametrize("kind", ExpApproximation)
def test_smaller_numbers_never_have_larger_exponentials(kind: ExpApproximation) -> None:
    assert (np.diff(exponential(EVERY, kind).astype(np.float64)) <= 0).all()


def test_a_maximum_that_stays_rescales_nothing_and_a_hidden_score_weighs_nothing() -> None:
    assert exponential(np.float16(0)) == 1
    assert exponential(np.float16(-np.inf)) == 0
