"""The band of a problem as GPU kernels take it, against what its visibility says of every score."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.gpu.band import FAR, Band

SIZES = st.integers(1, 40)
LEFT = st.one_of(st.just(-UNBOUNDED), st.integers(-50, 50))
RIGHT = st.one_of(st.just(UNBOUNDED), st.integers(-50, 50))


def seen_scores(queries, keys, visible):
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    return (i + visible.below <= j) & (j <= i + visible.above)


def problem_of(queries, keys, visible):
    q, k = torch.empty(1, 1, 1, queries, 8), torch.empty(1, 1, keys, 8)
    return KernelProblem(query=q, key=k, value=k, visible=visible, scale=1.0)


@given(SIZES, SIZES, LEFT, RIGHT, st.sampled_from([4, 8, 64]), st.sampled_from([4, 8]))
def test_a_band_says_of_tiles_what_visibility_says_of_scores(queries, keys, below, above, key_tile, row_tile):
    visible = Visibility(below=below, above=above)
    seen, band = seen_scores(queries, keys, visible), Band.of(problem_of(queries, keys, visible))
    assert band.is_dense == (visible == Visibility())
    assert int(seen.sum(1).max()) <= min(keys, band.width)
    assert band.masks(queries, keys, key_tile) or (bool(seen.all()) and keys % key_tile == 0)
    for tile, span in enumerate(band.spans(queries, keys, key_tile, row_tile)):
        rows = seen[:, tile * key_tile : (tile + 1) * key_tile].any(1).nonzero().flatten().tolist()
        assert set(rows) <= set(span)


def test_packed_sequences_are_never_dense_and_their_spans_leave_no_row_out():
    first, stop = torch.tensor([[0, 0, 2, 2]]), torch.tensor([[2, 2, 4, 4]])
    band = Band.of(problem_of(4, 4, Visibility(first=first, stop=stop)))
    assert band == Band(-FAR, FAR, packed=True)
    assert band.cuts_before and not band.is_dense and band.masks(4, 4, 4)
    assert band.spans(4, 4, 2, 2) == (range(4), range(4))
    assert not band._replace(above=0).is_causal  # keys before a row's own are hidden, too
