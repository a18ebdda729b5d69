"""Gradients of a new size while the best kernel is compiled: no driver is there, and compilers end when told to."""

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")


from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper.backward import config
from attenio.kernels.hopper.backward import dataflow as backward
from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.config import BackwardCall
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.backward.preprocess import RowStatistics
from attenio.kernels.hopper.cuda import compiler, key_stationary
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.replay.standing_in import waiting


def gradient_problem(keys=256, **options):
    q = torch.zeros(1, 1, 1, 256, 64, dtype=torch.bfloat16)
    k = torch.zeros(1, 1, keys, 64, dtype=torch.bfloat16)
    return KernelProblem(query=q, key=k, value=k.clone(), visible=Visibility(group=1), scale=1.0, **options)


@pytest.fixture
def gradient_compilers(compilers, monkeypatch):
    monkeypatch.setattr(backward, "compiles_for", lambda _device: True)
    monkeypatch.setattr(config, "_not_proven", set())
    monkeypatch.setattr(config, "processors_of", lambda _device: 132)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return compilers


def compile_gradients(*, masked):
    key_stationary.begin_compiling_key_stationary(torch.bfloat16, 64, masked=masked)


def test_gradients_of_whole_tiles_are_computed_with_masks_until_their_kernel_is_compiled(gradient_compilers):
    compile_gradients(masked=True)
    gradient_compilers.open.clear()
    problem = gradient_problem()
    choice = backward.stand_in(problem)
    best = backward.choose(problem).kernel
    assert choice.kernel == best._replace(masks=True) and choice.awaited == best and choice.language == "CUDA C++"
    assert backward.stand_in(gradient_problem(keys=300)) is None  # has masks
    gradient_compilers.open.set()
    for future in compiler._begun.values():
        future.result()
    assert backward.stand_in(problem) is None


def test_programs_that_share_heads_stand_in_for_those_that_take_whole_ones(gradient_compilers):
    compile_gradients(masked=True)
    gradient_compilers.open.clear()
    problem = gradient_problem(keys=100)
    choice, best = backward.stand_in(problem), backward.choose(problem).kernel
    assert best.whole_heads and choice.awaited == best
    assert choice.kernel == best._replace(masks=True, whole_heads=False)
    gradient_compilers.open.set()
    for future in compiler._begun.values():
        future.result()
    assert backward.stand_in(problem) is None


def test_gradients_that_must_repeat_and_other_kernels_have_no_stand_in(gradient_compilers, monkeypatch):
    assert backward.stand_in(gradient_problem(deterministic=True)) is None
    with waiting():
        assert backward.stand_in(gradient_problem()) is None
    monkeypatch.setattr(config, "_not_proven", {torch.device("cpu")})
    assert backward.stand_in(gradient_problem()) is None
    assert compiler._begun == {}


def test_a_kernel_with_masks_that_is_not_right_does_not_stand_in(gradient_compilers, monkeypatch):
    monkeypatch.setattr(backward, "is_proven_cuda", lambda *_given: False)
    assert backward.stand_in(gradient_problem()) is None
    assert backward.choose(gradient_problem()).language == "Gluon"


def test_gradients_whose_kernel_cannot_be_compiled_stay_with_masks(gradient_compilers):
    gradient_compilers.failing = compiler.CompileError("too many registers")
    compile_gradients(masked=False)
    (future,) = compiler._begun.values()
    assert isinstance(future.exception(), compiler.CompileError)
    with pytest.warns(UserWarning, match="too many registers"):
        choice = backward.stand_in(gradient_problem())
    assert choice.kernel.masks and choice.awaited is None


@pytest.mark.parametrize("known, masks", [("whole", False), ("masked", True), ("whole masked", False), ("", False)])
def test_captured_gradients_take_what_is_known_to_be_right(gradient_compilers, monkeypatch, known, masks):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(backward, "is_known", lambda name, *_: any(f"{each} tiles" in name for each in known.split()))
    choice = backward.stand_in(gradient_problem())
    assert (choice.kernel.masks and choice.awaited is None) if masks else choice is None
    assert compiler._begun == {}


def test_a_launch_with_masks_is_one_of_the_kernel_that_has_them(gradient_compilers, monkeypatch):
    asked = []
    monkeypatch.setattr(key_stationary, "launcher_of", lambda *_given, masked, **_form: asked.append(masked))
    monkeypatch.setattr(key_stationary, "launch_compiled", lambda *_given: None)
    problem = gradient_problem()
    saved = (*forward_by_definition(problem), problem.query)
    for each in (backward.choose(problem).kernel, backward.choose(problem).kernel._replace(masks=True)):
        statistics = RowStatistics.of(problem, saved, 1, each.stored_columns, as_offsets=True)
        call = BackwardCall.of(problem, each, VisibleRows.of(problem), statistics)
        key_stationary.launch_key_stationary(call, Chunk(range(1), range(2), range(256), 1))
    assert asked == [False, True]
