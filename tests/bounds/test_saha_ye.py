from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.saha_ye import saha_ye
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(st.integers(10**4, 10**6), st.integers(2, 64), st.integers(1, 8))
def test_growth_is_a_square_root_below_d_squared_and_linear_above(n: int, d: int, factor: int) -> None:
    workload = Workload(n=n, d=8 * d)
    above = [saha_ye(workload, 64 * d * d * factor * times).words for times in (1, 4)]
    below = [saha_ye(workload, d * d * times).words for times in (1, 4)]
    assert abs(above[0] - 4 * above[1]) <= 4
    assert abs(below[0] - 2 * below[1]) <= 2


def test_it_claims_no_value() -> None:
    assert saha_ye(Workload(n=64, d=8), 100).strength is Strength.ASYMPTOTIC
