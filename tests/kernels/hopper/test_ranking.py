"""Tiles in the order of their predicted times: the prediction against a schedule of the same row tiles."""

import numpy as np
import pytest
import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper import launch_plans
from attenio.kernels.hopper.candidates import candidates
from attenio.kernels.hopper.cuda.tiles import CudaTiles, cuda_tiles
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.ranking import Extent, TileTimes, ordered_tiles, predicted_us, ranked_tiles
from attenio.kernels.hopper.schedule import key_tiles, schedule
from attenio.kernels.hopper.tiles import computed_width, hopper_tiles, possible_tiles

PROCESSORS = 132


def extent_of(heads, queries, keys=None, *, causal=False):
    keys = keys or queries
    return Extent(heads, queries, keys, Band(above=keys - queries) if causal else Band())


def scheduled_us(tiles, times, extent):
    """The time of the program that ends last, by the lists that the kernel reads."""
    missing = tiles.missing_rows(extent.queries, extent.band)
    lengths = key_tiles(*extent[1:4], row_tile=tiles.row_tile, key_tile=tiles.key_tile, missing=missing)
    lists = schedule(lengths, extent.batch_heads, programs=tiles.programs(PROCESSORS), heads_at_once=2**20)
    costs = times.row_tile_us + lengths[lists.entries[:-1, 1] // 2] * times.key_tile_us
    return max(part.sum() for part in np.split(costs, lists.starts[1:-1]))


@pytest.mark.parametrize("seed", range(20))
def test_a_predicted_time_is_that_of_the_schedule_but_for_one_row_tile(seed):
    draw = np.random.default_rng(seed)
    d = int(draw.choice([32, 64, 128, 192]))
    tried = (*possible_tiles(d, d), *cuda_tiles(d, d))
    tiles = tried[draw.integers(len(tried))]
    heads, queries, keys = (int(draw.integers(1, most)) for most in (300, 3000, 3000))
    extent = extent_of(heads, queries, queries + keys, causal=bool(draw.integers(2)))
    times = TileTimes(float(draw.uniform(0.5, 4)), float(draw.uniform(0.5, 2)))
    predicted, actual = predicted_us(tiles, times, extent, PROCESSORS), scheduled_us(tiles, times, extent)
    longest = times.row_tile_us + -(-extent.keys // tiles.key_tile) * times.key_tile_us
    assert predicted <= actual * (1 + 1e-9) and actual <= predicted + longest


@pytest.mark.parametrize("d", [16, 64, 80, 128, 160, 256])
def test_long_sequences_want_many_rows_and_short_ones_no_empty_rows(d):
    long = ranked_tiles(d, d, extent_of(64, 16384), PROCESSORS)[0]
    assert long.row_tile >= 128 and long.blocks == 1
    short = ranked_tiles(d, d, extent_of(1024, 128), PROCESSORS)[0]
    assert short.row_tile <= 128


def test_a_vision_transformer_of_197_tokens_leaves_few_rows_empty():
    tiles = ranked_tiles(64, 64, extent_of(256 * 12, 197), PROCESSORS)[0]
    assert -(-197 // tiles.row_tile) * tiles.row_tile == 256


@pytest.mark.parametrize("causal", [False, True])
def test_rows_that_see_one_key_tile_do_not_wait_for_a_second_buffer_of_queries(causal):
    ranked = {n: ordered_tiles(128, 128, extent_of(1536, n, causal=causal), PROCESSORS, cuda=True) for n in (128, 256)}
    buffers = {n: {tiles.query_buffers for tiles in each if isinstance(tiles, CudaTiles)} for n, each in ranked.items()}
    assert buffers == {128: {1}, 256: {1, 2}}


def test_short_heads_take_tiles_that_were_measured_for_them():
    """197 tokens of 64 columns in blocks of 80 keys, three on an SM; 256 of 128 columns in two buffers of queries."""
    taken = ordered_tiles(64, 64, extent_of(1992, 197, causal=True), PROCESSORS, cuda=True)[0]
    assert (taken.row_tile, taken.key_tile, taken.blocks) == (64, 80, 3)
    taken = ordered_tiles(128, 128, extent_of(768, 256), PROCESSORS, cuda=True)[0]
    assert isinstance(taken, CudaTiles) and (taken.key_tile, taken.query_buffers) == (128, 2)


@pytest.mark.parametrize("segment, rows", [(256, 64), (2048, 192)])
def test_short_packed_sequences_take_tiles_of_few_rows(segment, rows):
    """64 sequences of 326 tokens: tiles of 192 rows see keys of two of them, 64 rows those of one."""
    extent = Extent(5, 20857, 20857, Band(packed=True), segment=segment)
    assert ordered_tiles(64, 64, extent, PROCESSORS, cuda=True)[0].row_tile == rows


def test_a_few_packed_sequences_take_tiles_whose_longest_takes_the_least_time():
    """5 sequences of 870 tokens, the longest maybe twice as long, and 7 heads: not all SMs have as much to do."""
    few, many = (Extent(heads, 4351, 4351, Band(packed=True), segment=512) for heads in (7, 70))
    assert [ordered_tiles(64, 64, each, PROCESSORS, cuda=True)[0].row_tile for each in (few, many)] == [64, 192]


def test_the_kind_of_packed_sequences_has_the_power_of_two_below_their_mean_length():
    query = torch.zeros(1, 2, 4351, 64, dtype=torch.bfloat16)
    ends = torch.zeros(1, 4351, dtype=torch.int64)
    for segments, segment in ((0, 0), (1, 4096), (5, 512), (4351, 1), (5000, 1)):
        seen = Visibility(first=ends, stop=ends, segments=segments, group=1)
        kind = ForwardKind.of(KernelProblem.of_heads(query, query, query, seen, 1.0))
        assert kind.segment == segment


def test_heads_of_packed_sequences_come_in_equal_runs_of_many_row_tiles(monkeypatch):
    monkeypatch.setattr(launch_plans, "processors_of", lambda _device: PROCESSORS)

    def together(heads, queries, d):
        kind = ForwardKind(
            heads, queries, queries, Band(packed=True), d, d, torch.bfloat16, torch.device("cpu"), segment=512
        )
        return launch_plans.plan_of.__wrapped__(kind, cuda_tiles(d, d)[0]).together

    assert [together(15, 4034, 256), together(35, 24804, 96), together(40, 65536, 128)] == [15, 12, 10]


def test_lengths_that_stand_in_for_each_other_on_a_gpu_have_the_kernels_that_its_tests_name():
    """``tests/on_gpu/test_new_sizes.py``: one causal head of 192 columns."""
    best = {n: ordered_tiles(192, 192, extent_of(1, n, causal=True), PROCESSORS, cuda=True)[0] for n in (100, 128, 384)}
    assert [tiles.language for tiles in best.values()] == ["CUDA C++", "Gluon", "CUDA C++"]
    assert best[100] != best[384]


def test_rows_within_sectors_are_computed_in_clusters():
    for own, columns, blocks in ((184, 192, 2), (192, 192, 1), (248, 256, 2), (256, 256, 1)):
        extent = extent_of(44, 4096)._replace(own=(own, own))
        best = ranked_tiles(columns, columns, extent, PROCESSORS, cuda=True)[0]
        assert getattr(best, "cluster", 1) == blocks


def test_widths_that_were_not_measured_are_ranked_by_the_roofline():
    assert ranked_tiles(96, 32, extent_of(8, 4096), PROCESSORS) == hopper_tiles(96, 32)


@pytest.mark.parametrize("n", [1024, 4096, 5000])
def test_of_causal_rows_in_cuda_the_first_tile_is_the_one_that_is_not_whole(n):
    (tiles, *_), causal = cuda_tiles(64, 64), Band(above=0)
    missing = tiles.missing_rows(n, causal)
    assert (n + missing) % tiles.row_tile == 0 and not tiles.missing_rows(n, Band())
    with_missing, without = (
        key_tiles(n, n, causal, row_tile=tiles.row_tile, key_tile=tiles.key_tile, missing=each).sum()
        for each in (missing, 0)
    )
    assert with_missing < without


@pytest.mark.parametrize("own", [104, 120, 208, 224, 248])
def test_columns_that_heads_do_not_have_are_left_out_by_cuda(own):
    columns = computed_width(own)
    extent = extent_of(64, 4096)._replace(own=(own, own))
    assert isinstance(ranked_tiles(columns, columns, extent, PROCESSORS, cuda=True)[0], CudaTiles)


def test_rows_that_begin_within_sectors_are_read_by_as_few_row_tiles_as_can_be():
    whole, within = (extent_of(52, 4096)._replace(own=(own, own)) for own in (160, 152))
    rows = [ranked_tiles(160, 160, extent, PROCESSORS, cuda=True)[0].row_tile for extent in (whole, within)]
    assert rows == [128, 192]


@pytest.mark.parametrize("width", [64, 80, 192, 256])
def test_packed_sequences_take_tiles_of_cuda_that_come_alone_and_gluons_where_there_are_none(width):
    d, extent = computed_width(width), Extent(8, 20000, 20000, Band(packed=True))
    with_cuda, without = (ordered_tiles(d, d, extent, PROCESSORS, cuda=cuda) for cuda in (True, False))
    assert with_cuda and all(isinstance(each, CudaTiles) and each.cluster == 1 for each in with_cuda)
    assert without and not any(isinstance(each, CudaTiles) for each in without)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("d", [64, 168, 184, 200, 248])
@pytest.mark.parametrize("length", [200, 20000])
def test_packed_sequences_take_no_clusters_whether_or_not_they_must_repeat_to_the_bit(d, length, repeats):
    band, where = Band(packed=True), torch.device("cpu")
    kind = ForwardKind(8, length, length, band, d, d, torch.bfloat16, where, repeats=repeats)
    taken = candidates(kind, PROCESSORS)
    assert all(isinstance(each, CudaTiles) and each.cluster == 1 for each in taken)
