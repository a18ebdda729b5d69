"""Ranges of packed sequences by one kernel each, interpreted, as PyTorch's operations find them."""

import sys
from contextlib import contextmanager
from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from attenio.kernels import call
from attenio.kernels.call import packing
from attenio.kernels.call import segment_ranges as segments
from attenio.kernels.call.packing import segment_ranges
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper import range_kernels
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.ranges import VisibleKeys, longest_first

LENGTHS = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=5)
WINDOWS = st.sampled_from([(-1, -1), (7, 0), (20, 30), (-1, 3)])


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def ends_of(lengths):
    """Cumulative lengths of queries and of keys; there is one of each at least."""
    mine, theirs = zip(*lengths, (1, 1), strict=True)
    return tuple(torch.tensor([0, *accumulate(each)], dtype=torch.int32) for each in (mine, theirs))


def problem_of(first, stop, keys, batch=1):
    query = torch.zeros(batch, 1, first.shape[1], 8)
    key = torch.zeros(batch, 1, keys, 8)
    return KernelProblem.of_heads(query, key, key, Visibility(first=first, stop=stop, group=1), 1.0)


@given(lengths=LENGTHS, window=WINDOWS, is_causal=st.booleans())
@settings(max_examples=8)
def test_ranges_of_sequences_are_those_of_torch(lengths, window, is_causal):
    pair = ends_of(lengths)
    queries = int(pair[0][-1])
    mine = segments.on_gpu(*pair, queries, window, is_causal=is_causal)
    theirs = torch.stack(segment_ranges(pair, queries, window, is_causal=is_causal))
    assert torch.equal(mine, theirs)


@given(lengths=LENGTHS, window=WINDOWS, is_causal=st.booleans(), batch=st.integers(1, 2))
@settings(max_examples=8)
def test_ends_bounds_and_rows_are_those_of_torch(lengths, window, is_causal, batch):
    pair = ends_of(lengths)
    first, stop = segment_ranges(pair, int(pair[0][-1]), window, is_causal=is_causal)
    keys = int(pair[1][-1])
    problem = problem_of(first[None], stop[None], keys, batch)
    band = Band.of(problem)
    mine, theirs = range_kernels.visible_keys(first[None], stop[None], band, keys), VisibleKeys.of(problem, band)
    assert all(torch.equal(*each) for each in zip(mine, theirs, strict=True))
    for row_tile in (64, 192):
        placed = range_kernels.longest_first(first[None], stop[None], row_tile)
        assert torch.equal(placed, longest_first(first[None], stop[None], row_tile))
    rows, right = range_kernels.visible_rows(first[None], stop[None], band, batch, keys), VisibleRows.of(problem)
    # Of a key that no row sees there are none, wherever they would begin.
    unseen = rows[0] >= rows[1]
    assert torch.equal(unseen, right.first_rows >= right.stop_rows)
    assert all(torch.equal(each[~unseen], other[~unseen]) for each, other in zip(rows, right[1:3], strict=True))


@pytest.mark.parametrize("row_tile, seed", [(64, 0), (128, 1), (192, 2)])
def test_of_many_row_tiles_those_first_whose_keys_are_furthest_apart(row_tile, seed):
    """More than one program orders and more than it compares with at a time, many of them as long as others."""
    drawn = torch.Generator().manual_seed(seed)
    rows = 600 * row_tile - 7
    starts = torch.randint(0, 2, (1, rows), generator=drawn).cumsum(1)
    stops = starts + torch.randint(0, 90, (1, 1 + rows // 500), generator=drawn).repeat_interleave(500, 1)[:, :rows]
    stops = stops.cummax(1).values
    order = range_kernels.longest_first(starts, stops, row_tile)
    assert torch.equal(order, longest_first(starts, stops, row_tile))
    apart = [int(stops[0, min(at + row_tile, rows) - 1] - starts[0, at]) for at in range(0, rows, row_tile)]
    assert len(set(apart)) < len(apart) and [apart[at] for at in order] == sorted(apart, reverse=True)


def test_rows_of_lengths_that_could_not_be_read_see_nothing():
    pair = (torch.tensor([0, 5, 9], dtype=torch.int32),) * 2
    mine = segments.on_gpu(*pair, 12, (-1, -1), is_causal=True)
    assert torch.equal(mine, torch.stack(segment_ranges(pair, 12, (-1, -1), is_causal=True)))
    assert (mine[0, 9:] == mine[1, 9:]).all()


@given(lengths=LENGTHS, window=WINDOWS, is_causal=st.booleans(), more=st.integers(0, 5))
def test_neither_end_of_a_range_falls_from_one_row_to_the_next(lengths, window, is_causal, more):
    """Also of rows that see nothing, and of those past lengths that could not be read: rows of keys are found so."""
    pair = ends_of(lengths)
    for ends in segment_ranges(pair, int(pair[0][-1]) + more, window, is_causal=is_causal):
        assert (ends.diff() >= 0).all()


@pytest.mark.parametrize("kernel", ["visible_keys_kernel", "visible_rows_kernel"])
def test_a_batch_may_be_larger_than_the_second_dimension_of_a_grid(monkeypatch, kernel):
    grids, batch = [], 2**16
    launched = type("Kernel", (), {"__getitem__": lambda _self, grid: lambda *_, **__: grids.append(grid)})()
    monkeypatch.setattr(range_kernels, kernel, launched)
    first = torch.zeros(batch, 70, dtype=torch.int64)
    if kernel == "visible_keys_kernel":
        range_kernels.visible_keys(first, first, Band(packed=True), 130)
    else:
        range_kernels.visible_rows(first, first, Band(packed=True), batch, 130)
    assert grids == [(2 * batch,)]


def test_ranges_are_found_on_the_device_of_the_lengths(monkeypatch):
    """Launches go to the current device, and before a call's kernels nobody has made it the tensors' own."""
    current, launches = [], []

    @contextmanager
    def device_of(tensor):
        current.append(tensor.device)
        yield
        current.pop()

    kernel = type("Kernel", (), {"__getitem__": lambda _self, _: lambda *_, **__: launches.append(list(current))})()
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    monkeypatch.setattr(segments, "segment_ranges_kernel", kernel)
    pair = ends_of([(3, 3)])
    segments.on_gpu(*pair, 4, (-1, -1), is_causal=False)
    assert launches == [[pair[0].device]]


def test_without_triton_ranges_of_a_gpu_are_found_by_pytorch(monkeypatch):
    monkeypatch.setattr(packing, "is_unwatched", lambda _: True)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, segments.__name__)
    monkeypatch.delattr(call, "segment_ranges")
    pair = ends_of([(3, 5), (4, 2)])
    elsewhere = tuple(each.as_subclass(OnGpu) for each in pair)
    mine, right = (segment_ranges(each, 8, (-1, -1), is_causal=True) for each in (elsewhere, pair))
    assert all(torch.equal(*each) for each in zip(mine, right, strict=True))
