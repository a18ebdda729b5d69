"""The short way to a compiled kernel hands Triton's launcher what the long way does, and makes tensor maps once."""

from types import SimpleNamespace

import pytest
import torch
from triton import knobs
from triton.backends.nvidia import driver

from attenio.kernels.hopper import compiled
from attenio.kernels.hopper.launch import Box

KIND = {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [1, 1, 64, 64], "fp4_padded": False}


class Launcher:
    """Triton's, but for the driver at its end: ``launch`` makes descriptors and calls what is below it."""

    def __init__(self, below, signature, kinds):
        self.launch = driver.wrap_handle_tensordesc(below, signature, kinds)

    def __call__(self, *arguments):
        # From here on every version has an order of its own; what a kernel takes comes last.
        self.launch(*arguments[:9], *([None] * (driver_base() - 9)), *last(arguments[9:]))


def driver_base():
    return getattr(driver, "_BASE_ARGS_FORMAT_LEN", 15)


def last(arguments):
    """One by one, or together in newer versions."""
    return arguments if hasattr(driver, "_BASE_ARGS_FORMAT_LEN") else (arguments,)


@pytest.fixture
def kernel(monkeypatch):
    seen = SimpleNamespace(launches=[], maps=[])

    def below(*arguments):
        kernel_arguments = arguments[driver_base() :]
        seen.launches.append(
            (arguments[0], list(kernel_arguments if len(kernel_arguments) != 1 else kernel_arguments[0]))
        )

    def made(descriptor, kind):
        assert kind == KIND and list(descriptor.block_shape) == [1, 1, 64, 64]
        seen.maps.append(descriptor.base.data_ptr())
        return [f"map of {descriptor.base.data_ptr()}", *descriptor.shape, *descriptor.strides]

    signature = dict(
        enumerate(("tensordesc<bf16[1,1,64,64],>", "constexpr", "tensordesc<bf16[1,1,64,64],>", "*fp32", "i32"))
    )
    run = Launcher(below, signature, [KIND, KIND])
    monkeypatch.setattr(driver, "make_tensordesc_arg", made)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7 + device, raising=False)

    class Kernel:
        function, packed_metadata = 11, (4, 1, 0)

        def __init__(self):
            self.run = run

        def __getitem__(self, grid):
            return lambda *arguments: run(*grid, 7, 11, (4, 1, 0), None, None, None, *arguments)

    return Kernel(), seen


def arguments(offset=0):
    one, other = (torch.zeros(1, 2, 64, 64, dtype=torch.bfloat16) for _ in range(2))
    boxes = [Box(x, tuple(x.shape), x.stride(), (1, 1, 64, 64)) for x in (one, other)]
    return (boxes[0], None, boxes[1]), (torch.zeros(3), 5 + offset)


def test_both_ways_launch_the_same(kernel, monkeypatch):
    kernel, seen = kernel
    described, rest = arguments()
    ready = compiled.Compiled(kernel)
    ready(132, described, rest)
    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", SimpleNamespace(calls=[print]))
    ready(132, described, rest)
    short, long = seen.launches
    assert short == long and short[0] == 132
    assert [x for x in short[1] if isinstance(x, str)] == [f"map of {box.base.data_ptr()}" for box in described if box]


def test_tensor_maps_are_made_once_for_each_place(kernel):
    kernel, seen = kernel
    ready = compiled.Compiled(kernel)
    (one, _, other), rest = arguments()
    for _ in range(3):
        ready(1, (one, None, other), rest)
    assert seen.maps == [one.base.data_ptr(), other.base.data_ptr()]
    ready(1, (other, None, one), rest)
    ready(1, (one._replace(shape=(1, 2, 32, 64)), None, other), rest)
    assert len(seen.maps) == 5
    assert len({str(arguments) for _, arguments in seen.launches}) == 3


def test_not_more_maps_are_kept_than_so_many(kernel, monkeypatch):
    kernel, seen = kernel
    monkeypatch.setattr(compiled, "_MOST_MAPS", 4)
    ready = compiled.Compiled(kernel)
    kept = [arguments() for _ in range(5)]
    for described, rest in kept:
        ready(1, described, rest)
        assert len(ready._maps) <= 4
    assert len(seen.launches) == 5


class Allocating(Launcher):
    """One that makes memory for every program."""

    def __call__(self, programs, *arguments):
        assert 4 * programs
        super().__call__(programs, *arguments)


class Reordering(Launcher):
    """One that has the stream elsewhere."""

    def __call__(self, programs, y, z, stream, *arguments):
        super().__call__(programs, stream, y, z, *arguments)


OTHERS = {
    "does not end in a launch": lambda _run: SimpleNamespace(),
    "has another step": lambda _run: SimpleNamespace(launch=lambda *_given: None),
    "makes memory for programs": lambda run: copied(run, Allocating),
    "takes another order": lambda run: copied(run, Reordering),
}


def copied(run, kind):
    other = kind.__new__(kind)
    other.launch = run.launch
    return other


@pytest.mark.parametrize("name", OTHERS)
def test_launchers_put_together_otherwise_are_called_the_long_way(kernel, name):
    kernel, _ = kernel
    grids = []
    kernel.run = OTHERS[name](kernel.run)
    type(kernel).__getitem__ = lambda _self, grid: lambda *given: grids.append((grid, len(given)))
    ready = compiled.Compiled(kernel)
    ready(9, *arguments())
    assert grids == [((9, 1, 1), 5)] and not ready.is_short
