from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import product_words
from attenio.bounds.operators import operator_by_operator
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 10**5), st.integers(1, 256), st.integers(1, 256), st.integers(1, 2**30))
def test_both_products_and_four_passes_over_the_scores_are_paid(n: int, d: int, dv: int, fast_words: int) -> None:
    words = operator_by_operator(Workload(n=n, d=d, value_dim=dv), fast_words).words
    first, last = (product_words(n, n, width, fast_words=fast_words) for width in (d, dv))
    assert words >= 4 * n * n
    assert words >= first + 2 * n * n + last
