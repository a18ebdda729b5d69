"""What becomes of a kernel that is right, and of one that is not; the device is told to be there."""

from functools import partial

import pytest
import torch

from attenio.kernels import triton
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import proving
from attenio.kernels.hopper.backward import config
from attenio.kernels.hopper.backward import dataflow as backward
from attenio.kernels.hopper.cuda.proving import is_proven
from attenio.kernels.replay.compiling import compiles_only

GPU = torch.device("cuda")


@pytest.fixture
def device(monkeypatch):
    """A GPU of which nothing is known yet: what is found out about it, by name."""
    known, state = {}, {"captures": False}
    monkeypatch.setattr(proving, "recalled", lambda name, _device: known.get(name))
    monkeypatch.setattr(proving, "remember", lambda name, found, _device: known.update({name: found}))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["captures"])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a GPU")
    return known, state


def results(scale):
    one = torch.linspace(-1, 1, 64)
    return [one * scale, one + 3], [one, one + 3]


def test_a_kernel_within_rounding_is_believed_and_asked_once(device):
    asked = []

    def both():
        asked.append(compiles_only())
        return results(1 + 2.0**-8)

    assert all(proving.is_right("a kernel", torch.bfloat16, GPU, both) for _ in range(3))
    assert asked == [True, False]  # its kernels are compiled side by side first


@pytest.mark.parametrize(
    ("proven", "runs"),
    [
        (is_proven, "Gluon kernels"),
        (proving.is_right, "portable kernels"),
        (partial(proving.is_right, instead="tiles of fewer rows"), "tiles of fewer rows"),
    ],
)
def test_the_warning_says_what_runs_instead(device, proven, runs):
    with pytest.warns(UserWarning, match=rf"a kernel in .*; {runs} run instead$"):
        assert not proven("a kernel", torch.float16, GPU, lambda: results(2.0))


@pytest.mark.parametrize("scale", [1.1, float("nan"), float("inf")])
def test_a_kernel_that_is_off_is_never_run_and_named_once(device, scale):
    with pytest.warns(
        UserWarning, match="a kernel in torch.float16 is off by .* on a GPU; portable kernels run instead"
    ):
        assert not proving.is_right("a kernel", torch.float16, GPU, lambda: results(scale))
    assert not proving.is_right("a kernel", torch.float16, GPU, lambda: results(1.0))


def test_nothing_is_found_out_while_a_graph_is_captured(device):
    known, state = device
    state["captures"] = True
    assert not proving.is_right("a kernel", torch.bfloat16, GPU, lambda: results(1.0))
    state["captures"] = False
    assert not known and proving.is_right("a kernel", torch.bfloat16, GPU, lambda: results(1.0))


def test_kernels_are_told_apart_by_all_that_they_are_compiled_for(monkeypatch):
    names = []
    monkeypatch.setattr(backward, "is_right", lambda name, *_: names.append(name) or True)
    monkeypatch.setattr(backward, "is_proven_cuda", lambda name, *_: names.append(f"CUDA C++, {name}") or True)
    at = torch.arange(256)[None]
    masks = ({"above": 0}, {"above": 2**40}, {"first": at, "stop": at + 1})
    for d, width in ((64, 64), (128, 128), (192, 128), (192, 192), (256, 256)):
        for mask in masks:
            for choice in (False, True):
                # What each width has a choice of.
                monkeypatch.setattr(backward, "carries", lambda _problem, choice=choice: choice)
                q = torch.zeros(1, 1, 1, 256, d, dtype=torch.bfloat16)
                key, value, seen = q[0], q[0, ..., :width], Visibility(group=1, **mask)
                heads = {"query": q, "key": key, "value": value}
                assert backward.is_proven(KernelProblem(**heads, visible=seen, scale=1.0, deterministic=choice))
    assert len(set(names)) == len(names) == 30


def test_gluon_computes_gradients_where_cuda_is_not_right(monkeypatch):
    monkeypatch.setattr(config, "_not_proven", set())
    monkeypatch.setattr(backward, "is_right", lambda *_: True)
    monkeypatch.setattr(backward, "is_proven_cuda", lambda *_: False)
    q = torch.zeros(1, 1, 1, 256, 64, dtype=torch.bfloat16)
    problem = KernelProblem(query=q, key=q[0], value=q[0], visible=Visibility(group=1), scale=1.0)
    assert backward.choose(problem).language == "CUDA C++"
    assert backward.is_proven(problem) and backward.choose(problem).language == "Gluon"


def test_the_portable_kernels_give_what_the_definition_gives(monkeypatch):
    """In the trial of every config, with the portable kernels in the place of those that are tried."""
    drawn = proving.small_problem
    tried = []

    def small(lengths, *rest, **options):
        whole = drawn(lengths, *rest, **options)
        assert backward.supports(whole) and whole.query.shape[:3] == (24, 2, 2)
        whole = drawn(tuple(length // 4 for length in lengths), *rest, **options)  # an interpreter takes long
        one = KernelProblem(
            query=whole.query[:1, :1], key=whole.key[:1, :1], value=whole.value[:1, :1], visible=whole.visible,
            scale=whole.scale, deterministic=whole.deterministic,
        )  # fmt: skip
        tried.append(one)
        return one

    def judged(_name, dtype, _device, both):
        off = [proving._distance(mine, theirs) for mine, theirs in zip(*both(), strict=True)]
        return max(off) <= proving._ALLOWED[dtype]

    monkeypatch.setattr(backward, "small_problem", small)
    monkeypatch.setattr(backward, "is_right", judged)
    for name in ("_by_config", "spilled_gradients"):
        monkeypatch.setattr(backward, name, lambda problem, saved, *_, **__: triton.gradients(problem, saved))
    # Rows that are carried are many, and which of them are does not matter to the portable kernels.
    monkeypatch.setattr(backward, "ROW_STEP", 32)
    at = torch.arange(128)[None]
    for number, mask in enumerate(({"above": 0}, {"above": 2**40}, {"first": at, "stop": at + 1})):
        for carried in (False, True):  # every two of mask, width and carried rows meet
            d, width = ((64, 64), (192, 128))[(number + carried) % 2]
            q = torch.zeros(1, 1, 1, 128, d, dtype=torch.float16)
            monkeypatch.setattr(backward, "carries", lambda _problem, carried=carried: carried)
            key, value, seen = q[0], q[0, ..., :width], Visibility(group=1, **mask)
            assert backward.is_proven(KernelProblem(query=q, key=key, value=value, visible=seen, scale=1.0))
    assert len(tried) == 6


def test_a_forward_pass_by_definition_is_that_of_the_portable_kernels():
    problem = proving.small_problem((70, 50), (64, 64), torch.float16, torch.device("cpu"), masked=True)
    problem = KernelProblem(
        query=problem.query[:1, :1], key=problem.key[:1, :1], value=problem.value[:1, :1],
        visible=Visibility(group=2, above=0), scale=problem.scale,
    )  # fmt: skip
    theirs, (output, largest, total) = triton.attend(problem), proving.forward_by_definition(problem)
    assert proving._distance(theirs.output, output) <= 2.0**-8
    assert torch.allclose(theirs.largest + theirs.total.log2(), largest + total.log2(), atol=1e-4)
