"""Launches that are recorded and played again: a kernel here adds what lies at two addresses, and goes by them only."""

import ctypes
import gc
import weakref
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from triton import knobs

from attenio.kernels.hopper.descriptors import TmaDescriptor
from attenio.kernels.replay import launches, set_replay, tape
from attenio.kernels.replay.launcher import Launcher
from attenio.kernels.replay.launches import LaunchRecord
from attenio.kernels.replay.streams import forked, forks_and_joins, on_stream, stream_index
from attenio.kernels.replay.tape import recorded

SIZE = 64


def at(address):
    return torch.frombuffer((ctypes.c_float * SIZE).from_address(address), dtype=torch.float32)


class Adding:
    """OUT = A + B + number; A is given by a TMA descriptor."""

    is_direct = is_counted = True
    may_leave_out = False

    def __init__(self):
        self.maps, self.streams = [], []

    def expanded(self, described):
        return [each for place, descriptor in enumerate(described) for each in self.tensor_map(place, descriptor)]

    def tensor_map(self, place, descriptor):
        self.maps.append(descriptor.base.data_ptr())
        return [("map", place, descriptor.base.data_ptr()), *descriptor.shape, *descriptor.strides]

    repeated, written = Launcher.repeated, Launcher.written

    def launch(self, programs, stream, arguments):
        self.streams.append(stream)
        (kind, place, address), size, step, b, out, number = arguments
        assert (kind, place, size, step, programs) == ("map", 0, SIZE, 1, 3)
        at(out).copy_(at(address) + at(b) + number)


@pytest.fixture
def add():
    ready = Adding()

    def run(a, b, out, number):
        """What ``launch`` does."""
        descriptor = TmaDescriptor(a, (SIZE,), (1,), (16,))
        with torch.utils._python_dispatch._disable_current_modes():
            ready.launch(3, 0, [*ready.expanded((descriptor,)), b.data_ptr(), out.data_ptr(), number])
        knobs.runtime.launch_enter_hook(None)
        heard = getattr(launches._recorder, "launches", None)
        if heard is not None:
            heard.append(LaunchRecord(ready, 3, (descriptor,), (b, out, number), stream_index(), forks_and_joins()))

    run.ready = ready
    return run


def drawn(count):
    return tuple(torch.randn(SIZE) for _ in range(count))


def added(add, a, b):
    """The plainest computation: one launch."""
    out = torch.empty(SIZE)
    add(a, b, out, 0.0)
    return (out,)


def test_a_tape_computes_for_other_tensors_what_was_recorded(add):
    def compute(a, b):
        work, first, second = torch.empty(2, SIZE), torch.empty_like(a), torch.empty(2, SIZE // 2)
        add(a, b, work[1], 1.0)
        add(work[1], a, first.view(-1), 2.0)
        add(first, work[1], second.view(-1), 3.0)
        return first, second

    a, b = drawn(2)
    found, played = recorded(lambda: compute(a, b), (a, b))
    assert torch.allclose(found[0], 2 * a + b + 3)
    for _ in range(3):
        c, d = drawn(2)
        before = c.clone(), d.clone()
        first, second = played.play((c, d), 2, 0)
        assert torch.allclose(first, 2 * c + d + 3) and torch.allclose(second.view(-1), 3 * c + 2 * d + 7)
        assert second.shape == (2, SIZE // 2)
        (alone,) = played.play((c, d), 1, 0)
        assert torch.equal(alone, first) and torch.equal(c, before[0]) and torch.equal(d, before[1])


def test_launches_are_played_on_their_streams_before_between_and_after_a_fork_and_a_join(add, monkeypatch):
    def compute(a, b):
        work, found = torch.empty(2, SIZE), torch.empty(SIZE)
        add(a, b, found, 0.0)
        with forked(a.device, 3) as beside:
            for stream, out in ((2, work[0]), (1, work[1])):
                with on_stream(stream, beside):
                    add(a, b, out, float(stream))
        add(work[0], work[1], found, 0.0)
        return (found,)

    @contextmanager
    def forks(_device, streams):
        assert streams == 3
        add.ready.streams.append("fork")
        yield [SimpleNamespace(cuda_stream=71), SimpleNamespace(cuda_stream=72)]
        add.ready.streams.append("join")

    a, b = drawn(2)
    _, played = recorded(partial(compute, a, b), (a, b))
    monkeypatch.setattr(tape, "forked", forks)
    add.ready.streams.clear()
    (found,) = played.play((b, b), 1, 70)
    assert torch.allclose(found, 4 * b + 3)
    assert add.ready.streams == [70, "fork", 72, 71, "join", 70]


def test_a_tape_holds_neither_what_was_given_nor_what_was_made(add):
    def compute(a, b):
        work, found = torch.empty(SIZE), torch.empty(SIZE)
        add(a, b, work, 0.0)
        add(work, b, found, 0.0)
        held.extend(weakref.ref(tensor) for tensor in (a, b, work, found))
        return (found,)

    held = []
    a, b = drawn(2)
    _, played = recorded(partial(compute, a, b), (a, b))
    del a, b, _
    gc.collect()
    assert played is not None and len(held) == 4 and not any(tensor() is not None for tensor in held)


@pytest.mark.parametrize("shape", [(0,), (7,), (1, 1), (3, 1, 5), (2, 0, 4), (1, 8, 6, 4)])
def test_tensors_made_like_a_model_are_contiguous_and_the_model_takes_one_element(shape):
    model = tape._model(shape, torch.float16, torch.device("cpu"))
    made = torch.empty_like(model)
    assert made.shape == shape and made.is_contiguous() and made.dtype == torch.float16
    assert model.untyped_storage().nbytes() == 2 and made.untyped_storage().nbytes() == 2 * made.numel()


def test_large_pieces_of_memory_are_blocks_of_their_own():
    large = tape._LARGE
    assert tape._cuts([]) == ([], [])
    assert tape._cuts([1, 513, 512]) == ([2048], [(0, 0), (0, 512), (0, 1536)])
    assert tape._cuts([large, 4, large + 1, 600]) == ([1536, large, large + 1], [(1, 0), (0, 0), (2, 0), (0, 512)])
    assert tape._cuts([large]) == ([large], [(0, 0)])


def test_memory_that_stays_is_read_as_it_is_then(add):
    holder = [torch.zeros(SIZE)]

    def compute(a):
        found = torch.empty(SIZE)
        add(a, holder[0], found, 0.0)
        add(holder[0], found, found, 0.0)
        return (found,)

    (a,) = drawn(1)
    _, played = recorded(lambda: compute(a), (a,))
    holder[0] += 5
    stays = weakref.ref(holder.pop())
    (b,) = drawn(1)
    assert torch.allclose(played.play((b,), 1, 0)[0], b + 10)
    assert stays() is not None


def test_tensor_maps_are_made_once_for_each_address(add):
    a, b = drawn(2)
    _, played = recorded(lambda: added(add, a, b), (a, b))
    add.ready.maps.clear()
    for _ in range(3):
        played.play((b, a), 1, 0)
    assert add.ready.maps == [b.data_ptr()]


CASES = {
    "an operator computes": lambda add, a, b, out: (add(a, b, out, 0.0), out.mul_(2)),
    "an operator makes a tensor": lambda add, a, b, out: add(a + 1, b, out, 0.0),
    "memory is cleared": lambda add, a, b, out: add(a, torch.zeros(SIZE), out, 0.0),
    "a launch that is not known": lambda add, a, b, out: (add(a, b, out, 0.0), knobs.runtime.launch_enter_hook(None)),
    "nothing is launched": lambda add, a, b, out: None,
    "a part of what was given": lambda add, a, b, out: add(a, b[1:], out, 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_there_is_no_tape_of_more_than_launches(add, name):
    def compute(a, b):
        out = torch.empty(SIZE)
        CASES[name](add, a, b, out)
        return (out,)

    a, b = torch.randn(SIZE), torch.randn(SIZE + 1)
    found, played = recorded(lambda: compute(a, b), (a, b))
    assert played is None and found[0].shape == (SIZE,)


@pytest.mark.parametrize(
    "returned",
    [
        lambda a, out, both: (a,),
        lambda a, out, both: (both[0],),
        lambda a, out, both: (out, out),
        lambda a, out, both: (out[::2],),
    ],
    ids=["what was given", "a part of memory", "one twice", "every second element"],
)
def test_there_is_no_tape_of_results_that_are_not_tensors_of_their_own(add, returned):
    def compute(a, b):
        out, both = torch.empty(SIZE), torch.empty(2, SIZE)
        add(a, b, out, 0.0)
        return returned(a, out, both)

    a, b = drawn(2)
    assert recorded(lambda: compute(a, b), (a, b))[1] is None


def test_there_is_no_tape_of_kernels_that_triton_must_launch_nor_under_a_hook(add, monkeypatch):
    a, b = drawn(2)
    _, played = recorded(lambda: added(add, a, b), (a, b))
    assert played is not None
    with monkeypatch.context() as patch:
        patch.setattr(tape, "has_launch_hooks", lambda: True)
        assert played.play((a, b), 1, 0) is None
        assert recorded(lambda: added(add, a, b), (a, b))[1] is None
    monkeypatch.setattr(Adding, "is_direct", False)
    assert recorded(lambda: added(add, a, b), (a, b))[1] is None


def test_memory_that_stays_is_not_given_away_while_the_stream_of_a_tape_reads_it(add, monkeypatch):
    here, heard = SimpleNamespace(is_cuda=False), []
    there = SimpleNamespace(is_cuda=True, device="cuda:0", record_stream=heard.append)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    tape._keep_until_read([here, there])
    assert heard == ["stream of cuda:0"]
    stays, held = torch.zeros(SIZE), []
    monkeypatch.setattr(tape, "_keep_until_read", held.extend)

    def compute(a):
        found = torch.empty(SIZE)
        add(a, stays, found, 0.0)
        return (found,)

    (a,) = drawn(1)
    assert recorded(lambda: compute(a), (a,))[1] is not None and [x is stays for x in held] == [True]


def test_with_replay_off_nothing_is_recorded_or_replayed_and_results_are_the_same(add):
    a, b = drawn(2)
    recorded_results, played = recorded(lambda: added(add, a, b), (a, b))
    (replayed,) = played.play((a, b), 1, 0)
    set_replay(False)
    try:
        results, none = recorded(lambda: added(add, a, b), (a, b))
        assert none is None and played.play((a, b), 1, 0) is None
    finally:
        set_replay(True)
    assert torch.equal(results[0], recorded_results[0]) and torch.equal(results[0], replayed)
    assert played.play((a, b), 1, 0) is not None
