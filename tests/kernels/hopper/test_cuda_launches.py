"""Launches of the CUDA kernel with a driver that is not there: what they hand over is all that the kernel goes by."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import forward
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda import driver, launcher
from attenio.kernels.hopper.cuda.tiles import cuda_tiles
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.replay.tape import recorded


def memory(address, count, dtype):
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype)


class Driver:
    """Computes what a launch asks for from the addresses, sizes and numbers that it hands over."""

    def __init__(self):
        self.maps, self.launches = {}, []

    def tensor_map(self, element, address, sizes, strides, box):
        at = SimpleNamespace(address=1000 + len(self.maps))
        self.maps[at.address] = (element, address, sizes, strides, box)
        return at

    def launch(self, function, programs, threads, shared_bytes, stream, addresses):
        self.launches.append((function, programs, threads, shared_bytes, stream))
        with torch.utils._python_dispatch._disable_current_modes():
            self._compute(programs, *addresses)

    def _compute(self, programs, *addresses):
        *maps, work = addresses
        work = cuda.Work.from_buffer_copy((ctypes.c_char * ctypes.sizeof(cuda.Work)).from_address(work))
        q, k, v = (self._tensor(at) for at in maps)
        batch, heads = q.shape[:2]
        assert (heads, q.shape[2], k.shape[2], v.shape[3]) == (work.heads, work.queries, work.keys, work.width)
        starts = memory(work.Starts, programs + 1, torch.int32)
        tiles = memory(work.Entries, 4 * int(starts[-1]), torch.int32).view(-1, 4)[:, :2]
        assert len({tuple(each) for each in tiles.tolist()}) == len(tiles)
        problem = KernelProblem.of_heads(
            q, k, v, Visibility(group=work.group, below=work.below, above=work.above), work.scale_log2 / LOG2_E
        )  # fmt: skip
        count = batch * heads * work.queries
        output, largest, total = forward_by_definition(problem)
        memory(work.Output, count * work.width, q.dtype).copy_(output.flatten())
        memory(work.Largest, count, torch.float32).copy_(largest.flatten())
        memory(work.Total, count, torch.float32).copy_(total.flatten())

    def _tensor(self, at):
        element, address, sizes, strides, box = self.maps[at]
        assert element == "bf16" and box[:2] == (1, 1)
        reach = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
        return memory(address, reach, torch.bfloat16).as_strided(sizes, strides)


@pytest.fixture
def found(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "loaded_function", lambda cubin, name, shared_bytes: (cubin, name, shared_bytes))
    monkeypatch.setattr(driver, "tensor_map", fake.tensor_map)
    monkeypatch.setattr(driver, "launch", fake.launch)
    monkeypatch.setattr(launcher, "compiled", lambda text: b"cubin")
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(forward, "processors_of", lambda device: 132)
    cuda.launcher_of.cache_clear()
    forward._plan.cache_clear()
    yield fake
    cuda.launcher_of.cache_clear()
    forward._plan.cache_clear()


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
    forward.run(problem, attended, tiles)
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
    assert {each[-1][-2:] for each in found.maps.values()} == {
        (64, 64 if widths[0] == 192 else 32), (tiles.key_tile, 64 if widths[0] == 192 else 32),
    }  # fmt: skip


def test_a_tape_hands_over_other_tensors(found):
    tiles, seen = cuda_tiles(192, 128)[0], Visibility(group=3, above=130)
    first, second = drawn(), drawn()
    run(problem_of(first, seen), tiles)  # plans and compiles
    results, tape = recorded(lambda: tuple(run(problem_of(first, seen), tiles)), first)
    assert tape is not None
    for heads, mine in ((first, results), (second, tape.play(second, 3, 5)), (first, tape.play(first, 2, 5))):
        for each, right in zip(mine, forward_by_definition(problem_of(heads, seen)), strict=False):
            torch.testing.assert_close(each, right.view(each.shape))
    assert [launch[-1] for launch in found.launches] == [7, 7, 5, 5]
    assert len(found.maps) == 6  # of two times three tensors
