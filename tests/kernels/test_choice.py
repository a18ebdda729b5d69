"""What is launched is what explain() says: on the CPU, by the portable kernels, and by those for Hopper."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.kernels.launched import random_call, run_and_compare

from attenio.catalogue import machine_named
from attenio.kernels.call.choice import LIBRARY
from attenio.kernels.torch_operator import operators

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cpu_what_is_explained_is_launched(seed):
    rng = random.Random(seed)
    for _ in range(8):
        heads, options = random_call(rng, dtypes=DTYPES, widths=(8, 16, 32))
        run_and_compare(heads, options)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cpu_what_is_explained_is_launched_of_tiles_too(seed, tiles_only, monkeypatch):
    monkeypatch.setattr("attenio.kernels.choice.library_first", lambda _sizes: False)
    rng = random.Random(100 + seed)
    for _ in range(8):
        heads, options = random_call(rng, dtypes=(*DTYPES, torch.float64), widths=(8, 16, 24), longest=300)
        assert run_and_compare(heads, options).choice.language == "PyTorch"


def test_calls_that_pytorch_serves_are_explained_as_such():
    q = torch.randn(1, 2, 64, 16)
    found = run_and_compare((q, q.clone(), q.clone()), {})
    assert found.choice.language == found.backward.language == LIBRARY
    assert found.to_json()["kernel"]["language"] == LIBRARY


def test_a_tolerance_that_is_not_met_and_autocast_are_explained_as_they_run():
    q, k, v = (20 * torch.randn(1, 2, 300, 16) for _ in range(3))
    run_and_compare((q, k, v), {"tolerance": 0.01})
    with torch.autocast("cpu", torch.bfloat16):
        run_and_compare((q / 20, k / 20, v / 20), {})


@pytest.fixture
def portable(tiles_only, monkeypatch):
    """CPU tensors go to the portable kernels, which Triton interprets; the machine that these are planned for."""
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    from attenio.kernels import triton

    monkeypatch.setattr(operators, "backend_of", lambda _tensor: triton)
    return machine_of(8)


def machine_of(major):
    """A GPU with as many SMs as the interpreter is taken to have."""
    gpu = machine_named("h200")
    inner = replace(gpu.levels[0], units=4)
    return replace(gpu, name="interpreter", levels=(inner, *gpu.levels[1:]), compute_capability=(major, 0))


@pytest.mark.parametrize("seed", range(4))
def test_in_tritons_interpreter_what_is_explained_is_launched(seed, portable):
    rng = random.Random(200 + seed)
    for _ in range(2):
        heads, options = random_call(rng, dtypes=(torch.float32,), widths=(16,), longest=60, most_heads=2)
        run_and_compare(heads, options, portable)


class Silent:
    """A kernel that does nothing."""

    def __init__(self, name):
        self.fn = SimpleNamespace(__name__=name)

    def __getitem__(self, _grid):
        return lambda *_given, **_constants: None


@pytest.fixture
def silent(portable, monkeypatch):
    """The hosts of all GPU kernels run as they are; kernels do nothing, so that many calls can be tried."""
    from attenio.kernels.hopper import decode, gluon_attenio, launch_plans, single_precision
    from attenio.kernels.hopper.backward import config, fixed_point, preprocess, spilled_gradients
    from attenio.kernels.hopper.cuda import attenio as cuda
    from attenio.kernels.hopper.cuda import key_stationary
    from attenio.kernels.replay.launches import note_constants
    from attenio.kernels.triton import attenio as one_pass
    from attenio.kernels.triton import parts, split_keys, two_pass

    kernels = {
        one_pass: ("attenio",), split_keys: ("split_keys",), two_pass: ("query_gradient", "key_gradients"),
        parts: ("split",),
    }  # fmt: skip
    for module, names in kernels.items():
        for name in names:
            monkeypatch.setattr(module, f"{name}_kernel", Silent(f"{name}_kernel"))

    def noted(kernel, programs, _descriptors, _arguments, constants, _options):
        note_constants(kernel, programs, constants)

    for module in (gluon_attenio, decode, config, spilled_gradients, single_precision):
        monkeypatch.setattr(module, "launch", noted)
    for module in (preprocess, fixed_point):
        monkeypatch.setattr(module, "launch_specialized", lambda *_given, **_options: None)
    for module in (cuda, key_stationary):
        monkeypatch.setattr(module, "launcher_of", lambda *_given, **_options: lambda *_launch: None)
    monkeypatch.setattr(launch_plans, "settled", {})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("major", [8, 9], ids=["portable", "hopper"])
def test_on_a_gpu_what_is_explained_is_what_the_host_launches(seed, major, silent, monkeypatch):
    from attenio.kernels import hopper, triton

    monkeypatch.setattr(operators, "backend_of", lambda _tensor: hopper if major == 9 else triton)
    rng, languages = random.Random(300 + seed), set()
    for _ in range(16):
        heads, options = random_call(rng, dtypes=DTYPES, widths=(16, 64, 64, 72, 128, 192, 256), longest=700)
        said = run_and_compare(heads, options, machine_of(major))
        languages |= {said.choice.language, said.backward.language}
        if major == 9 and said.choice.language == "Triton" and said.choice.own is None:
            assert said.choice.why_not
    assert languages - {"CUDA C++"} == ({"Gluon", "Triton"} if major == 9 else {"Triton"})
    assert major == 9 or "CUDA C++" not in languages
