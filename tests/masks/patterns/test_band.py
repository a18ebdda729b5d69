import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks.patterns import Band

laws = settings(max_examples=20, deadline=None, derandomize=True)
size = st.integers(1, 12)


@laws
@given(rows=size, keys=size, left=st.integers(0, 12), right=st.integers(0, 12), data=st.data())
def test_a_part_of_a_band_is_the_band_seen_through_a_window(
    rows: int, keys: int, left: int, right: int, data: st.DataObject
) -> None:
    band = Band(rows=rows, keys=keys, left=left, right=right, shift=keys - rows)
    top, start = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, keys - 1))
    bottom, stop = data.draw(st.integers(top + 1, rows)), data.draw(st.integers(start + 1, keys))
    part = band.part(top, bottom, start, stop)
    seen = band.required(top, bottom, np.arange(start, stop))
    assert (part.required(0, bottom - top, np.arange(stop - start)) == seen).all()


@laws
@given(shapes=st.lists(st.tuples(size, size), min_size=1, max_size=4), tile=size, width=size)
def test_a_band_of_arrays_counts_all_its_bands_at_once(shapes: list[tuple[int, int]], tile: int, width: int) -> None:
    rows, keys = np.array(shapes).T
    many, each = Band.causal(rows, keys), [Band.causal(*shape) for shape in shapes]
    assert many.key_loads(tile).tolist() == [band.key_loads(tile) for band in each]
    assert many.tile_rows(tile, width).tolist() == [band.tile_rows(tile, width) for band in each]
    assert many.live_rows(tile).tolist() == [band.live_rows(tile) for band in each]
    assert many.scores_beyond(width).tolist() == [band.scores_beyond(width) for band in each]
    assert many.scores.tolist() == [band.scores for band in each]
    assert many.is_dense.tolist() == [band.is_dense for band in each]
    for i in (0, 1):
        assert many.key_load_floors[1][i].tolist() == [band.key_load_floors[1][i] for band in each]
        assert many.moving_ends[i].tolist() == [band.moving_ends[i] for band in each]


@laws
@given(rows=st.integers(1, 60), keys=size, left=size, right=st.integers(0, 4), tile=st.integers(1, 9))
def test_tiles_of_a_band_cover_more_scores_where_its_ends_move(
    rows: int, keys: int, left: int, right: int, tile: int
) -> None:
    band = Band(rows=rows, keys=5 * keys, left=left, right=right, shift=5 * keys - rows)
    extra = sum(max(0, (tile - 1) * (length - 2 * tile)) for length in band.moving_ends)
    assert 2 * (band.tile_rows(tile, 1) - band.scores) >= extra


def test_counts_of_one_band_are_python_integers() -> None:
    band = Band.causal(2**30, 2**30)
    assert type(band.key_loads(1)) is int
    assert band.key_loads(1) == band.scores == 2**29 * (2**30 + 1)
    assert type(band.tile_rows(7, 11)) is int
    assert type(band.live_rows(7)) is int
