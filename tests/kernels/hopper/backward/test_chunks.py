"""Chunks of the backward pass that spills dS, and which key tiles each 64 rows see."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.backward.chunks import ROW_STEP, chunks_of
from attenio.kernels.hopper.backward.masks import PART_ROWS, VisibleRows, key_tile_ranges

SIZES = st.integers(1, 900)
BANDS = st.tuples(st.integers(-900, 900), st.integers(-900, 900)).filter(lambda band: band[0] <= band[1])
ENDS = st.sampled_from([(-(2**30), 2**30), (-(2**30), 0)]) | BANDS
TILES = st.sampled_from([(64, 64), (128, 64), (128, 128)])


@given(SIZES, SIZES, ENDS, TILES, st.integers(1, 3), st.integers(1, 9), st.integers(1, 40))
def test_every_tile_of_ds_is_in_one_chunk_which_has_room_for_it(queries, keys, band, tiles, heads, processors, room):
    key_tile, row_tile = tiles
    spans = Band(*band).spans(queries, keys, key_tile, row_tile)
    padded = -(-queries // 128) * 128
    chunks = chunks_of(heads, spans, 1, padded, processors=processors, workspace=room * 256)
    found = {}
    for chunk in chunks:
        assert chunk.rows.start % ROW_STEP == 0 and chunk.rows.stop <= max(padded, chunk.rows.start + PART_ROWS)
        fits = chunk.blocks * len(chunk.rows) <= room * 256
        assert fits or len(chunk.rows) <= ROW_STEP
        for head in chunk.batch_heads:
            for tile in chunk.tiles:
                of_tile = found.setdefault((head, tile), [])
                of_tile.append(chunk.rows)
                assert chunk.carries_keys or len(of_tile) == 1
                seen = set(spans[tile]) & set(chunk.rows)
                assert chunk.carries_queries or not seen or len(chunk.tiles) == len(spans)
    assert set(found) == {(head, tile) for head in range(heads) for tile in range(len(spans))}
    for (_, tile), ranges in found.items():
        rows = [row for part in ranges for row in part]
        assert len(rows) == len(set(rows)) and set(spans[tile]) <= set(rows)


@given(SIZES, SIZES, ENDS, TILES)
def test_rows_see_the_key_tiles_whose_span_they_are_in(queries, keys, band, tiles):
    key_tile, row_tile = tiles
    spans = Band(*band).spans(queries, keys, key_tile, row_tile)
    rows = -(-queries // 256) * 256
    ranges = key_tile_ranges(
        VisibleRows(Band(*band)), queries, keys, torch.device("cpu"), key_tile=key_tile, row_tile=row_tile, rows=rows
    )
    assert ranges.shape == (1, rows // PART_ROWS, 2)
    for part, (first, stop) in enumerate(ranges[0].tolist()):
        seen = [tile for tile, span in enumerate(spans) if part * PART_ROWS in span]
        assert seen == list(range(first, stop))


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=6), st.booleans(), ENDS)
def test_rows_of_packed_sequences_are_those_that_see_a_key(lengths, causal, band):
    first, stop, key = [], [], 0
    for queries, keys in lengths:
        rows = torch.arange(queries)
        first.append(torch.full_like(rows, key))
        stop.append(key + (torch.minimum(rows + 1, torch.tensor(keys)) if causal else torch.full_like(rows, keys)))
        key += keys
    first, stop = torch.cat(first)[None], torch.cat(stop)[None]
    if key == 0 or first.numel() == 0:
        return
    q, k = torch.zeros(2, 1, 1, first.shape[1], 8), torch.zeros(2, 1, key, 8)
    visible = Visibility(group=1, below=band[0], above=band[1], first=first, stop=stop)
    seen = VisibleRows.of(KernelProblem(query=q, key=k, value=k, visible=visible, scale=1.0))
    row, at = torch.arange(first.shape[1])[:, None], torch.arange(key)[None]
    sees = (first[0][:, None] <= at) & (at < stop[0][:, None]) & (row + band[0] <= at) & (at <= row + band[1])
    nonempty = (stop > first)[0]
    mine = (seen.first_rows[1] <= row) & (row < seen.stop_rows[1])
    assert torch.equal(mine[nonempty], sees[nonempty])
    for ends in (seen.first_rows, seen.stop_rows):
        assert (ends.diff(dim=1) >= 0).all()
