from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.compulsory import compulsory
from attenio.masks import SharedPrefix, SlidingWindow
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)
lengths = st.integers(1, 300)
widths = st.integers(1, 64)


@laws
@given(lengths, lengths, widths, widths)
def test_a_dense_head_reads_its_inputs_and_writes_its_output_once(n: int, m: int, d: int, dv: int) -> None:
    bound = compulsory(Workload(queries=n, keys=m, d=d, value_dim=dv))
    assert bound.words == n * d + m * (d + dv) + n * dv
    assert bound.strength is Strength.ABSOLUTE


@laws
@given(lengths, widths, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_heads_that_share_keys_read_them_once(n: int, d: int, kv_heads: int, group: int, batch: int) -> None:
    bound = compulsory(Workload(n=n, d=d, heads=kv_heads * group, kv_heads=kv_heads, batch=batch))
    assert bound.words == batch * kv_heads * (2 * group + 2) * n * d


@laws
@given(st.integers(1, 50), st.integers(1, 50), widths, st.integers(1, 5))
def test_a_prefix_shared_by_a_batch_is_read_once(prefix: int, own: int, d: int, batch: int) -> None:
    workload = Workload(queries=1, keys=prefix + own, d=d, batch=batch, mask=SharedPrefix(length=prefix))
    assert compulsory(workload).words == 2 * batch * d + (prefix + batch * own) * 2 * d


@laws
@given(lengths, widths)
def test_a_row_with_a_single_key_is_read_although_its_softmax_is_one(n: int, d: int) -> None:
    bound = compulsory(Workload(n=n, d=d, mask=SlidingWindow(width=1)))
    assert bound.words == 4 * n * d
    assert any("single key" in assumption for assumption in bound.assumptions)
