"""Calls of a new size while the best kernel is compiled: the driver is not there, and compilers end when told to."""

import sys
import threading
import warnings
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from tests.kernels.uninterpreted import uninterpreted

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import candidates, forward, gluon_attenio, launch_plans, ranking, standing_in
from attenio.kernels.hopper.cuda import compiler
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.hopper.tiles import GluonTiles, possible_tiles
from attenio.kernels.replay import set_stand_ins
from attenio.kernels.replay.standing_in import stand_ins, waiting

CAUSAL = {"above": 0}
# Lengths of one head of 192 columns, and the key tiles that are best for them.
CUDA_112, CUDA_96, GLUON_64 = 400, 384, 128


def problem_of(length, seen=CAUSAL, batch=1, **options):
    q, k, v = (torch.randn(batch, 1, length, 192).bfloat16() for _ in range(3))
    return KernelProblem.of_heads(q, k, v, Visibility(group=1, **seen), 0.1, **options)


def attend(problem):
    """Tiles that a call runs with, and whether they stood in for others; its results are those of the definition."""
    before, choice = stand_ins(), forward.choose(problem)
    for mine, right in zip(forward.attend(problem, choice), forward_by_definition(problem), strict=True):
        torch.testing.assert_close(mine, right.view(mine.shape))
    return choice.kernel, stand_ins() > before


def first_call(compilers, length=CUDA_112, seen=CAUSAL):
    """A call with everything compiled for it; from then on compilers wait to be told."""
    tiles, _ = attend(problem_of(length, seen))
    compilers.open.clear()
    return tiles


def finish(compilers, length, seen=CAUSAL, batch=1):
    compilers.open.set()
    launch_plans.settled[ForwardKind.of(problem_of(length, seen, batch))].awaited.wait()


@pytest.mark.parametrize("length, language, keys", [(CUDA_96, "CUDA C++", 96), (GLUON_64, "Gluon", 64)])
def test_a_new_length_runs_on_what_is_compiled_until_the_best_is(compilers, length, language, keys):
    first = first_call(compilers)
    assert isinstance(first, CudaTiles) and first.key_tile == 112
    for _ in range(3):
        assert attend(problem_of(length)) == (first, True)
    finish(compilers, length)
    for _ in range(3):
        tiles, stood_in = attend(problem_of(length))
        assert (tiles.language, tiles.key_tile, stood_in) == (language, keys, False)
    assert attend(problem_of(CUDA_112)) == (first, False)


def test_what_is_best_is_compiled_once_for_all_sizes_that_want_it(compilers):
    first = first_call(compilers)
    compiled = len(compilers.asked)
    for batch in (1, 2, 3):
        assert attend(problem_of(CUDA_96, batch=batch)) == (first, True)
    for batch in (1, 2, 3):
        finish(compilers, CUDA_96, batch=batch)
        tiles, stood_in = attend(problem_of(CUDA_96, batch=batch))
        assert tiles.key_tile == 96 and not stood_in
    assert len(compilers.asked) == compiled + 1


def test_with_nothing_compiled_a_call_waits(compilers):
    compilers.open.clear()
    threading.Timer(0.2, compilers.open.set).start()
    tiles, stood_in = attend(problem_of(CUDA_96))
    assert tiles.key_tile == 96 and not stood_in


@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_tried_of_packed_sequences_is_what_runs(compilers, is_packed):
    """So of these one kernel is compiled, and not another which nobody would try."""
    first = torch.zeros(1, CUDA_112, dtype=torch.int64)
    seen = {"first": first, "stop": first + 5} if is_packed else CAUSAL | {"below": -99}
    problem = problem_of(CUDA_112, seen)
    kind = ForwardKind.of(problem)
    plan = launch_plans.plan_of(kind, candidates.candidates(kind)[0])
    compiling = standing_in.begin_compiling(problem, kind, plan, to_be_tried=True)
    assert len(compiling) == (1 if is_packed else 2)


def test_another_mask_waits(compilers):
    """What was compiled for causal heads does not hide keys before a row's own."""
    first_call(compilers)
    threading.Timer(0.2, compilers.open.set).start()
    assert attend(problem_of(CUDA_112, {"below": -30, "above": 0}))[1] is False


@pytest.mark.parametrize("length, seen", [(128, {}), (GLUON_64, CAUSAL)])
def test_what_nvrtc_compiles_sooner_stands_in_for_what_triton_does(compilers, length, seen):
    first, stood_in = attend(problem_of(length, seen))
    assert isinstance(first, CudaTiles) and stood_in
    finish(compilers, length, seen)
    best, stood_in = attend(problem_of(length, seen))
    assert isinstance(best, GluonTiles) and not stood_in


def test_whole_tiles_have_a_twin_with_masks_that_is_compiled_first(compilers, monkeypatch):
    monkeypatch.setattr(candidates, "can_compile", lambda _device: False)
    compilers.open.clear()
    threading.Timer(0.2, compilers.open.set).start()
    first, stood_in = attend(problem_of(128, {}))
    assert isinstance(first, GluonTiles) and first.masks and stood_in
    finish(compilers, 128, {})
    best, stood_in = attend(problem_of(128, {}))
    assert not best.masks and not stood_in
    monkeypatch.setattr(candidates, "can_compile", lambda _device: True)
    compilers.open.clear()
    other, stood_in = attend(problem_of(100, {}))  # no multiple of a tile: whole tiles do not take it
    assert isinstance(other, GluonTiles) and not other.masks and stood_in and other.key_tile == first.key_tile
    assert launch_plans.settled[ForwardKind.of(problem_of(100, {}))].awaited.better.tiles.language == "CUDA C++"


def test_the_best_of_what_is_compiled_stands_in(compilers):
    first = first_call(compilers)
    attend(problem_of(CUDA_96))
    finish(compilers, CUDA_96)
    second, _ = attend(problem_of(CUDA_96))
    compilers.open.clear()
    kind = ForwardKind.of(problem_of(GLUON_64))
    ordered = ranking.ordered_tiles(*kind.columns, *candidates.ranked_for(kind), cuda=True)
    better = next(tiles for tiles in ordered if tiles in (first, second))
    assert first != second and attend(problem_of(GLUON_64)) == (better, True)


@pytest.mark.parametrize("seen", [CAUSAL, {}])
@pytest.mark.parametrize("first", [128, 700])
def test_what_must_repeat_to_the_bit_has_the_same_tiles_at_every_size_of_its_kind(compilers, seen, first):
    tiles, _ = attend(problem_of(first, seen, deterministic=True))
    compiled = len(compilers.asked), len(compilers.tiles)
    for length, batch in ((first + 1, 1), (first + 64, 3), (first // 2 + 250, 40)):
        other, stood_in = attend(problem_of(length, seen, batch, deterministic=True))
        assert replace(other, masks=tiles.masks) == tiles and not stood_in
    assert (len(compilers.asked), len(compilers.tiles)) == compiled


@pytest.mark.parametrize("how", ["deterministic", "algorithms", "switch", "waiting"])
def test_what_must_repeat_to_the_bit_waits_for_the_best(compilers, how):
    first = first_call(compilers)
    assert attend(problem_of(CUDA_96)) == (first, True)
    threading.Timer(0.2, compilers.open.set).start()
    torch.use_deterministic_algorithms(how == "algorithms")
    set_stand_ins(how != "switch")
    try:
        if how == "waiting":
            with waiting():
                tiles, stood_in = attend(problem_of(CUDA_96))
        else:
            tiles, stood_in = attend(problem_of(CUDA_96, deterministic=how == "deterministic"))
    finally:
        torch.use_deterministic_algorithms(False)
        set_stand_ins(True)
    kind = ForwardKind.of(problem_of(CUDA_96, deterministic=how == "deterministic"))
    assert tiles == candidates.candidates(kind)[0] and not stood_in


@pytest.mark.parametrize("is_right", [True, False])
def test_a_capture_waits_for_what_is_known_to_be_right(compilers, monkeypatch, is_right):
    first, entered = first_call(compilers), []
    attend(problem_of(CUDA_96))
    monkeypatch.setattr(launch_plans, "captures", lambda _device: True)
    monkeypatch.setattr(candidates, "is_known", lambda *_given: is_right)
    monkeypatch.setattr(forward, "loads_while_capturing", lambda: entered.append(True) or warnings.catch_warnings())
    monkeypatch.setattr(launch_plans, "plan_of", lambda *_given: pytest.fail("a schedule is copied"))
    threading.Timer(0.2, compilers.open.set).start()
    assert forward.why_not(problem_of(CUDA_96)) is None
    tiles, stood_in = attend(problem_of(CUDA_96))
    assert (tiles.key_tile, stood_in, entered) == ((96, False, [True]) if is_right else (112, True, []))
    assert [plan.tiles for plan in launch_plans.captured.values()] == [tiles]
    assert first.key_tile == 112


def test_a_graph_keeps_the_schedule_of_a_stand_in_that_another_has_replaced_since(compilers, monkeypatch):
    first_call(compilers)
    attend(problem_of(CUDA_96))
    compilers.open.set()
    for is_right in (False, True):
        monkeypatch.setattr(candidates, "is_known", lambda *_given, is_right=is_right: is_right)
        monkeypatch.setattr(launch_plans, "captures", lambda _device: True)
        monkeypatch.setattr(forward, "loads_while_capturing", warnings.catch_warnings)
        attend(problem_of(CUDA_96))
    assert [plan.tiles.key_tile for plan in launch_plans.captured.values()] == [112, 96]


@pytest.mark.parametrize("length", [CUDA_96, GLUON_64])
def test_a_kernel_that_cannot_be_compiled_is_named_once_and_calls_go_on(compilers, length):
    first = first_call(compilers)
    assert attend(problem_of(length)) == (first, True)
    compilers.failing = compiler.CompileError("too many registers")
    finish(compilers, length)
    with pytest.warns(UserWarning, match="a better kernel could not be compiled, .*: too many registers"):
        assert attend(problem_of(length)) == (first, False)  # for good, so it may be remembered
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attend(problem_of(length)) == (first, False)
    with waiting(), pytest.raises(compiler.CompileError, match="too many registers"):
        attend(problem_of(length))


def test_two_threads_at_once(compilers):
    first, found = first_call(compilers), []
    problems = [problem_of(CUDA_96) for _ in range(4)]
    threads = [threading.Thread(target=lambda each=each: found.append(attend(each))) for each in problems]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [(first, True)] * 4
    finish(compilers, CUDA_96)
    assert attend(problem_of(CUDA_96))[0].key_tile == 96


_TWINS = """
import json, threading
from types import SimpleNamespace
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime import jit
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import gluon_attenio as gluon, launch_plans
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.tiles import possible_tiles
from attenio.kernels.replay.compiling import compile_alone

class Driver:
    launcher_cls = lambda *given: None
    get_current_target = lambda self: GPUTarget("cuda", 90, 32)
    get_current_device = lambda self: 0
    get_current_stream = lambda self, device: 0

keys = []
def compiled(self, key, signature, device, *rest):
    keys.append((threading.current_thread().name, key))
    kernel = self.device_caches[device][0][key] = SimpleNamespace(src=None, metadata=None)
    return kernel

before, jit.JITFunction._do_compile = jit.JITFunction._do_compile, compiled
triton.runtime.driver.set_active(Driver())
for packed, sinks, cap, scale, d in argument:
    q, k, v = (torch.zeros(2, heads, rows, d, dtype=torch.bfloat16) for heads, rows in ((4, 300), (2, 333), (2, 333)))
    first = torch.zeros(1, 300, dtype=torch.long)
    seen = dict(first=first, stop=first + 150) if packed else dict(above=0)
    options = dict(softcap=cap, sinks=torch.zeros(4) if sinks else None)
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=2, **seen), scale, **options)
    kind = ForwardKind.of(problem)
    tiles = possible_tiles(*kind.columns)[0]
    plan = launch_plans.plan_of(kind, tiles)
    assert not gluon.is_compiled(problem, tiles, kind)
    gluon.begin_compiling_attenio(problem, plan).result()
    assert gluon.is_compiled(problem, tiles, kind)
    rows = problem.query.shape[:-1]
    results = Attended(torch.zeros((*rows, d), dtype=q.dtype), torch.zeros(rows), torch.zeros(rows))
    compile_alone(lambda: gluon.launch_attenio(problem, results, tiles, plan), q.device)
jit.JITFunction._do_compile = before
triton.runtime.driver._active = None
print(json.dumps([name for name, _ in keys]))
print(len({key for _, key in keys}))
"""


def test_a_module_that_another_thread_is_importing_has_compiled_nothing_yet(monkeypatch):
    monkeypatch.setitem(sys.modules, "attenio.kernels.hopper.attenio", ModuleType("attenio"))
    problem, tiles = problem_of(128), possible_tiles(192, 192)[0]
    assert not gluon_attenio.is_compiled(problem, tiles, ForwardKind.of(problem))


def test_what_a_thread_compiles_is_what_a_launch_asks_for():
    """Tensors that only have sizes give Triton the same key, so a launch finds the kernel and compiles nothing."""
    forms = [
        (False, False, 0.0, 0.1, 128), (True, False, 0.0, 0.1, 128), (False, True, 0.0, 0.1, 128),
        (False, False, 20.0, -0.1, 128), (True, True, 0.0, 0.1, 64), (False, False, 0.0, 0.1, 72),
    ]  # fmt: skip
    names, distinct = uninterpreted(_TWINS, forms).splitlines()
    assert names == str(["compiling"] * len(forms)).replace("'", '"') and int(distinct) == len(forms)


def test_a_kernel_is_looked_for_where_it_was_launched(monkeypatch):
    """Without its module nothing was compiled, and nothing is imported to find that out."""
    monkeypatch.setattr(gluon_attenio, "modules", {})
    kind = SimpleNamespace()
    tiles = GluonTiles(consumers=2, key_tile=64, stages=2, staged=True, ping_pong=False)
    assert not gluon_attenio.is_compiled(None, tiles, kind)
