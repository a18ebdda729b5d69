"""The cited growths: their slopes, their crossover, and the dense case inside the sparse one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.backward.li_liang import li_liang
from attenio.bounds.backward.nonzeros import input_words, nonzeros
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)
directions = st.sampled_from(("forward", "backward", "training"))


@laws
@given(st.integers(100, 10**5), st.integers(4, 128))
def test_it_halves_above_d_squared_and_falls_by_root_two_below(n: int, d: int) -> None:
    workload = Workload(n=n, d=d, direction="backward")
    large = [li_liang(workload, factor * d * d).words for factor in (1, 2)]
    assert abs(large[0] - 2 * large[1]) <= 2 + 1e-9 * large[0]
    small = [li_liang(workload, max(1, d * d // 4) * factor).words for factor in (1, 4)]
    assert abs(small[0] - 2 * small[1]) <= 2 + 1e-9 * small[0] or d % 2


@laws
@given(st.integers(1, 10**4), st.integers(1, 10**4), st.integers(1, 64), st.integers(1, 64), directions)
def test_inputs_are_counted_once(n: int, m: int, d: int, dv: int, direction: str) -> None:
    counted = input_words(Workload(queries=n, keys=m, d=d, value_dim=dv, direction=direction))
    assert counted == n * d + m * (d + dv) + (0 if direction == "forward" else n * dv)


@laws
@given(st.integers(10, 10**4), st.integers(1, 64), directions, st.integers(1, 2**24))
def test_dense_inputs_recover_the_dense_growth(n: int, d: int, direction: str, fast_words: int) -> None:
    words = nonzeros(Workload(n=n, d=d, direction=direction), fast_words).words
    dense = min(n * n * d * d / fast_words, n * n * d / fast_words**0.5)
    assert dense * (1 - 1e-9) <= words <= 16 * dense + 1


def test_neither_may_be_asserted_against_a_run() -> None:
    workload = Workload(n=1024, d=64, mask="window:64", direction="backward")
    for bound in (li_liang(workload, 4096), nonzeros(workload, 4096)):
        assert bound.strength is Strength.ASYMPTOTIC
    assert "unconfirmed" in nonzeros(workload, 4096).citation
