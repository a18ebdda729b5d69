import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attenio.memory.indices import as_array, compact, compose, cuts, singles, size, span

spans = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda ends: slice(min(ends), max(ends)))
arrays = st.sets(st.integers(0, 40)).map(lambda chosen: np.array(sorted(chosen), dtype=np.intp))


@given(st.one_of(spans, arrays))
def test_slices_and_arrays_of_the_same_indices_agree(indices):
    assert size(indices) == len(as_array(indices))
    assert (as_array(compact(as_array(indices))) == as_array(indices)).all()


@given(st.one_of(spans, arrays), st.data())
def test_composing_is_indexing(outer, data):
    stop = data.draw(st.integers(0, size(outer)))
    inner = data.draw(st.sampled_from([slice(stop // 2, stop), np.arange(stop, dtype=np.intp)[::2]]))
    assert (as_array(compose(outer, inner)) == as_array(outer)[inner]).all()


@given(st.integers(0, 30), st.integers(1, 9))
def test_cuts_cover_everything_once_in_order(count, tile):
    pieces = list(cuts(count, tile))
    assert [index for piece in pieces for index in as_array(piece)] == list(range(count))
    assert all(size(piece) == tile for piece in pieces[:-1])
    assert len(list(singles(count))) == count == size(span(count))
