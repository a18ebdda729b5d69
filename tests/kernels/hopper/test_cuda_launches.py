"""Launches of the CUDA kernel with a driver that is not there: what they hand over is all that the kernel goes by."""

import ctypes
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from tests.kernels.hopper.absent_driver import AbsentDriver, memory

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.counters import counters
from attenio.kernels.hopper import launch_plans
from attenio.kernels.hopper.backward import config as config_module
from attenio.kernels.hopper.backward import whole_heads
from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.config import BackwardCall, config_of, takes_whole_heads
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.backward.preprocess import RowStatistics
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda import driver, key_stationary, launcher
from attenio.kernels.hopper.cuda.key_stationary import GradientWork, launch_key_stationary
from attenio.kernels.hopper.cuda.launcher import CudaKernel, CudaLauncher
from attenio.kernels.hopper.cuda.tiles import cuda_tiles
from attenio.kernels.hopper.proving import forward_by_definition, gradients_by_definition
from attenio.kernels.hopper.tiles import SHARED_BYTES
from attenio.kernels.replay import native
from attenio.kernels.replay import tape as tape_module
from attenio.kernels.replay.tape import recorded


class Driver(AbsentDriver):
    """Computes outputs and gradients; blocks of a ``cluster`` have one list."""

    cluster = 1

    def _compute(self, programs, *addresses):
        *maps, work = addresses
        if len(maps) == 4:
            self._compute_gradients(maps, work)
            return
        work = self._structure(cuda.Work, work)
        q, k, v = (self._tensor(at) for at in maps)
        batch, heads = q.shape[:2]
        assert (heads, q.shape[2], k.shape[2], v.shape[3]) == (work.heads, work.queries, work.keys, work.width)
        self.work = work
        starts = memory(work.Starts, programs // self.cluster + 1, torch.int32)
        tiles = memory(work.Entries, 4 * int(starts[-1]), torch.int32).view(-1, 4)[:, :2]
        assert len({tuple(each) for each in tiles.tolist()}) == len(tiles)
        problem = KernelProblem.of_heads(
            q, k, v, Visibility(group=work.group, below=work.below, above=work.above), work.scale_log2 / LOG2_E
        )  # fmt: skip
        count = batch * heads * work.queries
        output, largest, total = forward_by_definition(problem)
        memory(work.Output, count * work.width, q.dtype).copy_(output.flatten())
        for address, found in ((work.Largest, largest), (work.Total, total)):
            if address:
                memory(address, count, torch.float32).copy_(found.flatten())

    def _compute_gradients(self, maps, work):
        work = self._structure(GradientWork, work)
        q, k, v, d_o = (self._tensor(at) for at in maps)
        self.work = work
        assert (q.shape[1], q.shape[2], k.shape[2]) == (work.kv_heads * work.group, work.queries, work.keys)
        assert (k.shape[3], v.shape[3]) == (work.width, work.v_width) and d_o.shape[3] == work.v_width
        problem = KernelProblem.of_heads(
            q, k, v, Visibility(group=work.group, above=work.above), work.scale_log2 / LOG2_E
        )  # fmt: skip
        d_query, d_key, d_value = gradients_by_definition(problem, d_o.reshape(*problem.query.shape[:-1], work.v_width))
        memory(work.RoundedQueryGradients, d_query.numel(), q.dtype).copy_(d_query.flatten())
        memory(work.KeyGradients, d_key.numel(), q.dtype).copy_(d_key.flatten())
        memory(work.ValueGradients, d_value.numel(), q.dtype).copy_(d_value.flatten())


@pytest.fixture
def found(monkeypatch):
    fake = Driver()
    fake.replace(monkeypatch)
    for module in (launch_plans, key_stationary, config_module, whole_heads):
        monkeypatch.setattr(module, "processors_of", lambda device: 132)
    cached = cuda.launcher_of, key_stationary.launcher_of, launch_plans.plan_of
    for each in cached:
        each.cache_clear()
    yield fake
    for each in cached:
        each.cache_clear()


def problem_of(heads, seen):
    return KernelProblem.of_heads(*heads, seen, 0.1)


def drawn(shape=(2, 6, 2, 200, 330), widths=(192, 128)):
    batch, heads, kv_heads, queries, keys = shape
    sizes = (heads, queries, widths[0]), (kv_heads, keys, widths[0]), (kv_heads, keys, widths[1])
    return tuple(torch.randn(batch, *size).bfloat16() for size in sizes)


def run(problem, tiles):
    shape = problem.query.shape[:-1]
    output = torch.empty((*shape, problem.value.shape[-1]), dtype=problem.query.dtype)
    attended = Attended(output, *(torch.empty(shape) for _ in range(2)))
    launch_plans.run(problem, attended, tiles)
    return attended


@pytest.mark.parametrize("seen", [{}, {"above": 130}, {"below": -20, "above": 99}], ids=str)
@pytest.mark.parametrize("widths, columns", [((192, 128), (192, 128)), ((80, 80), (96, 96))], ids=str)
def test_a_launch_hands_over_what_the_kernel_needs(found, widths, columns, seen):
    problem = problem_of(drawn(widths=widths), Visibility(group=3, **seen))
    tiles = cuda_tiles(*columns)[0]
    for mine, right in zip(run(problem, tiles), forward_by_definition(problem), strict=True):
        torch.testing.assert_close(mine, right.view(mine.shape))
    ((function, programs, threads, shared_bytes, stream),) = found.launches
    assert function[1:] == ("attenio_kernel", shared_bytes) and threads == 128 * (tiles.consumers + 1) and stream == 7
    assert programs == min(132, 2 * 6 * -(-200 // tiles.row_tile))
    assert found.work.missing == (-200 % tiles.row_tile if seen == {"above": 130} else 0)
    assert {each[-1][-2:] for each in found.maps.values()} == {
        (64, 64 if widths[0] == 192 else 32), (tiles.key_tile, 64 if widths[0] == 192 else 32),
    }  # fmt: skip


@pytest.mark.parametrize("widths, columns", [((184, 184), (192, 192)), ((248, 248), (256, 256))], ids=str)
def test_blocks_of_a_cluster_have_one_list_and_load_a_share_of_each_key_tile(found, widths, columns):
    problem = problem_of(drawn(widths=widths), Visibility(group=3))
    (tiles,) = (each for each in cuda_tiles(*columns) if each.cluster > 1)
    found.cluster = tiles.cluster
    for mine, right in zip(run(problem, tiles), forward_by_definition(problem), strict=True):
        torch.testing.assert_close(mine, right.view(mine.shape))
    ((_, programs, *_),) = found.launches
    assert tiles.row_tile == 256 and programs == 2 * min(66, 2 * 6)
    assert {each[-1][-2:] for each in found.maps.values()} == {(64, 64), (tiles.key_tile // 2, 64)}


@pytest.fixture(params=["Python", "C"])
def played_by(request, found, monkeypatch):
    """What hands recorded launches over."""
    if request.param == "Python":
        monkeypatch.setattr(tape_module, "loaded", lambda: None)
        yield request.param
        return
    if native.why_not() is not None:
        pytest.skip(f"replay is not compiled: {native.why_not()}")
    with found.in_c():
        yield request.param


def test_statistics_that_nobody_wants_are_not_written(found, played_by):
    tiles, seen, heads = cuda_tiles(192, 128)[0], Visibility(group=3), drawn()
    right, *_ = forward_by_definition(problem_of(heads, seen))
    alone = run(replace(problem_of(heads, seen), only_output=True), tiles)
    assert (found.work.Largest, found.work.Total) == (None, None)
    _, tape = recorded(lambda: tuple(run(problem_of(heads, seen), tiles)), heads)
    tape.play(heads, 1, 5)
    (played,) = tape.play(heads, 1, 5)
    assert (found.work.Largest, found.work.Total) == (None, None)
    for output in (alone.output, played):
        torch.testing.assert_close(output, right.view(output.shape))


def test_a_tape_hands_over_other_tensors(found, played_by):
    tiles, seen = cuda_tiles(192, 128)[0], Visibility(group=3, above=130)
    first, second = drawn(), drawn()
    run(problem_of(first, seen), tiles)  # plans and compiles
    results, tape = recorded(lambda: tuple(run(problem_of(first, seen), tiles)), first)
    assert tape is not None
    turns = 2 * [(second, 3), (first, 2)]
    played = [(given, tape.play(given, count, 5)) for given, count in turns]
    for heads, mine in ((first, results), *played):
        for each, right in zip(mine, forward_by_definition(problem_of(heads, seen)), strict=False):
            torch.testing.assert_close(each, right.view(each.shape))
    assert [launch[-1] for launch in found.launches] == [7, 7, 5, 5, 5, 5]
    assert all((each is not None) == (played_by == "C") for each in tape._compiled.values())
    assert len(found.maps) == 6  # of two times three tensors


@pytest.mark.parametrize(
    "heads, widths, columns, panel", [(6, (64, 48), 64, 64), (72, (80, 72), 96, 32), (6, (104, 128), 128, 64)], ids=str
)
def test_a_launch_of_gradients_hands_over_what_the_kernel_needs(found, heads, widths, columns, panel):
    problem = problem_of(drawn((2, heads, heads // 3, 70, 330), widths), Visibility(group=3, above=265))
    d_output = torch.randn((*problem.query.shape[:-1], widths[1])).bfloat16()
    kv_heads = 2 * heads // 3
    saved = (*forward_by_definition(problem), d_output)
    statistics = RowStatistics.of(problem, saved, 3 * kv_heads, columns, as_offsets=True)
    call = BackwardCall.of(problem, config_of(problem), VisibleRows.of(problem), statistics)
    launch_key_stationary(call, Chunk(range(kv_heads), range(3), range(statistics.padded), 2))
    _, d_key, d_value = gradients_by_definition(problem, d_output)
    torch.testing.assert_close(call.gradients.key, d_key.to(torch.bfloat16).view(call.gradients.key.shape))
    torch.testing.assert_close(call.gradients.value, d_value.to(torch.bfloat16).view(call.gradients.value.shape))
    work, ((function, programs, threads, shared_bytes, _),) = found.work, found.launches
    assert (work.blocks, work.programs) == (kv_heads * 3, programs) and call.config.stored_columns == columns
    assert work.Counters == counters(problem.query.device, 2).data_ptr()
    assert (work.first_head, work.together, work.group_parts, work.padded) == (0, 2, 1, statistics.padded)
    assert work.QueryGradients == statistics.dq_acc.data_ptr() and work.Offsets == statistics.offsets.data_ptr()
    assert work.scale == pytest.approx(0.1)
    assert function[1:] == ("key_stationary_kernel", shared_bytes) and shared_bytes <= SHARED_BYTES
    assert (programs, threads) == (min(132, work.blocks), 384 if columns == 128 else 512)
    assert {each[-1][-2:] for each in found.maps.values()} == {(64, panel), (128, panel)}


@pytest.mark.parametrize("keys", [100, 330])
def test_programs_that_take_whole_heads_have_sums_of_their_own_and_write_all_gradients(found, monkeypatch, keys):
    prepared = []
    monkeypatch.setattr(RowStatistics, "between", lambda self, done, following, scale: prepared.append(following))
    problem = problem_of(drawn((67, 4, 2, 70, keys), (128, 120)), Visibility(group=2, above=0))
    d_output = torch.randn((*problem.query.shape[:-1], 120)).bfloat16()
    config = config_of(problem)._replace(whole_heads=True)
    mine = whole_heads.whole_heads_gradients(problem, (*forward_by_definition(problem), d_output), config)
    for each, right in zip(mine[:3], gradients_by_definition(problem, d_output), strict=True):
        torch.testing.assert_close(each, right.to(torch.bfloat16).view(each.shape))
    work, ((_, programs, _, shared_bytes, _),) = found.work, found.launches
    assert prepared == [range(67 * 4)] and programs == work.programs == 132 and shared_bytes <= SHARED_BYTES
    assert (work.blocks, work.together, work.padded) == (134 * -(-keys // 128), 1, 128)
    assert (work.QueryGradients is None) == (keys == 100)


@pytest.mark.parametrize(
    "shape, d, above, expected",
    [
        ((140, 1, 1, 64, 128), 128, None, True),
        ((1, 1, 1, 4096, 77), 128, None, True),
        ((1, 8, 1, 4096, 77), 128, None, False),
        ((132, 1, 1, 256, 256), 128, None, True),
        ((132, 1, 1, 200, 200), 128, None, True),
        ((132, 1, 1, 200, 200), 128, 0, True),
        ((132, 1, 1, 200, 200), 64, None, True),
        ((140, 1, 1, 384, 384), 128, 0, False),
        ((132, 1, 1, 384, 384), 128, None, False),
        ((132, 1, 1, 384, 384), 96, None, True),
        ((132, 1, 1, 512, 512), 128, 0, True),
        ((132, 1, 1, 640, 640), 128, 0, False),
        ((132, 16, 1, 512, 512), 128, 0, False),
        ((132, 1, 1, 512, 512), 64, 0, True),
        ((132, 1, 1, 1024, 1024), 64, 0, False),
        ((132, 1, 1, 300, 100), 64, -200, False),
    ],
    ids=str,
)
def test_whole_heads_are_short_ones_that_fill_the_programs(monkeypatch, shape, d, above, expected):
    monkeypatch.setattr(config_module, "processors_of", lambda device: 132)
    group = shape[1] // shape[2]
    seen = Visibility(group=group) if above is None else Visibility(group=group, above=above)
    assert takes_whole_heads(problem_of(drawn(shape, (d, d)), seen), d) == expected


_MAPS, _NUMBERS = 4, len(GradientWork._fields_)


class Written:
    """What a launch lets the driver read: sizes and stream, addresses of tensor maps, and the last structure."""

    def __init__(self, patched):
        self.seen = []
        patched.setattr(driver, "loaded_function", lambda *_given: "kernel")
        patched.setattr(driver, "enqueuing", lambda: self.enqueue)
        patched.setattr(launcher, "compiled", lambda text: b"cubin")
        kernel = CudaKernel("kernel", "", "bf16", 384, 1000, GradientWork)
        self.launcher = CudaLauncher(kernel)

    def enqueue(self, config, function, parameters, extra):
        *maps, work = (ctypes.c_void_p * (_MAPS + 1)).from_address(parameters)
        self.seen.append((ctypes.string_at(config, 52), maps, ctypes.string_at(work, ctypes.sizeof(GradientWork))))
        return 0


@given(data=st.data())
def test_a_recorded_launch_reads_the_same_as_one_that_is_written_anew(data):
    addresses = st.integers(1, 2**48)
    first = [each for _ in range(_MAPS) for each in (data.draw(addresses), *range(8))]
    numbers = [data.draw(st.integers(-(2**31), 2**31 - 1)) for _ in range(_NUMBERS - 8)]
    arguments = [*first, *data.draw(st.lists(addresses, min_size=6, max_size=6)), *numbers, 0.5, 2.0]
    pointers = [9 * index for index in range(_MAPS)] + [9 * _MAPS + index for index in range(6)]
    places = tuple(data.draw(st.lists(st.sampled_from(pointers), unique=True)))
    with pytest.MonkeyPatch.context() as patched:
        written = Written(patched)
        again = written.launcher.repeated(17, arguments.copy(), places)
        for stream in (5, 2**40, 0):
            changed = [data.draw(addresses) for _ in places]
            for at, address in zip(places, changed, strict=True):
                arguments[at] = address
            again(stream, changed)
            written.launcher.launch(17, stream, arguments)
    recorded, anew = written.seen[::2], written.seen[1::2]
    assert recorded == anew and len(recorded) == 3


def test_a_recorded_launch_keeps_the_tensor_maps_that_it_reads(monkeypatch):
    written = Written(monkeypatch)
    maps = [driver.TensorMap() for _ in range(_MAPS)]
    memory_of_first = weakref.ref(maps[0]._memory)
    arguments = [each for tensor_map in maps for each in (tensor_map, *range(8))]
    again = written.launcher.repeated(17, [*arguments, *range(1, _NUMBERS - 1), 0.5, 2.0], ())
    first = int(maps[0])
    del maps, arguments
    gc.collect()
    again(0, [])
    assert memory_of_first() is not None and written.seen[0][1][0] == first
    del again
    gc.collect()
    assert memory_of_first() is None


def test_what_the_driver_refuses_is_told_by_name(found, monkeypatch):
    names = {"cuGetErrorName": lambda status, text: setattr(text._obj, "value", b"CUDA_ERROR_OUT_OF_MEMORY")}
    monkeypatch.setattr(driver, "enqueuing", lambda: lambda *_given: 2)
    monkeypatch.setattr(driver, "_library", lambda: SimpleNamespace(**names))
    with pytest.raises(driver.DriverError, match="cuLaunchKernelEx: CUDA_ERROR_OUT_OF_MEMORY"):
        run(problem_of(drawn(), Visibility(group=3)), cuda_tiles(192, 128)[0])
