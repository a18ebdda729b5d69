from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.one_shot import one_shot
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.integers(1, 256), st.integers(1, 2**30))
def test_it_stays_below_the_leading_term_of_rows_that_stay_while_keys_pass(
    n: int, d: int, dv: int, fast_words: int
) -> None:
    bound = one_shot(Workload(n=n, d=d, value_dim=dv), fast_words)
    assert bound.words <= n * n * (d + dv) ** 2 / fast_words + 1
    assert bound.strength is Strength.SCHEDULE


@laws
@given(st.integers(10**3, 10**6), st.integers(1, 256), st.integers(1, 256))
def test_it_touches_that_term_where_fast_memory_is_the_square_of_both_widths(n: int, d: int, dv: int) -> None:
    fast_words = (d + dv) ** 2
    words = one_shot(Workload(n=n, d=d, value_dim=dv), fast_words).words
    assert words >= (n * n - fast_words) * (1 - 1e-9) - 1e-9 * n * n
