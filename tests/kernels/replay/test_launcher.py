"""Direct launches hand Triton's C function what Triton itself does, and encode tensor maps once."""

from types import SimpleNamespace

import pytest
import torch
from triton import knobs
from triton.backends.nvidia import driver

from attenio.kernels import replay
from attenio.kernels.hopper.descriptors import TmaDescriptor
from attenio.kernels.replay import launcher

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
    descriptors = [TmaDescriptor(x, tuple(x.shape), x.stride(), (1, 1, 64, 64)) for x in (one, other)]
    return (descriptors[0], None, descriptors[1]), (torch.zeros(3), 5 + offset)


def test_triton_itself_launches_the_same_under_a_hook_and_with_replay_off(kernel, monkeypatch):
    kernel, seen = kernel
    described, rest = arguments()
    ready = launcher.TritonLauncher(kernel)
    ready(132, described, rest)
    before = len(seen.maps)
    replay.set_replay(False)
    try:
        ready(132, described, rest)
    finally:
        replay.set_replay(True)
    assert len(seen.maps) == 2 * before, "Triton encodes tensor maps anew"
    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", SimpleNamespace(calls=[print]))
    ready(132, described, rest)
    direct, switched_off, hooked = seen.launches
    assert direct == switched_off == hooked and direct[0] == 132
    assert [x for x in direct[1] if isinstance(x, str)] == [
        f"map of {each.base.data_ptr()}" for each in described if each
    ]


def test_tensor_maps_are_encoded_once_for_each_address(kernel):
    kernel, seen = kernel
    ready = launcher.TritonLauncher(kernel)
    (one, _, other), rest = arguments()
    for _ in range(3):
        ready(1, (one, None, other), rest)
    assert seen.maps == [one.base.data_ptr(), other.base.data_ptr()]
    ready(1, (other, None, one), rest)
    ready(1, (one._replace(shape=(1, 2, 32, 64)), None, other), rest)
    assert len(seen.maps) == 5
    assert len({str(arguments) for _, arguments in seen.launches}) == 3


def test_not_more_maps_are_cached_than_so_many(kernel, monkeypatch):
    kernel, seen = kernel
    monkeypatch.setattr(launcher, "_MOST_MAPS", 4)
    ready = launcher.TritonLauncher(kernel)
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
def test_launchers_built_otherwise_are_left_to_triton(kernel, name):
    kernel, _ = kernel
    grids = []
    kernel.run = OTHERS[name](kernel.run)
    type(kernel).__getitem__ = lambda _self, grid: lambda *given: grids.append((grid, len(given)))
    ready = launcher.TritonLauncher(kernel)
    ready(9, *arguments())
    assert grids == [((9, 1, 1), 5)] and not ready.is_direct
