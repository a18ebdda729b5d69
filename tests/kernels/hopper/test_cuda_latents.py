"""The CUDA kernel of latents without a GPU: what a launch hands over, what it compiles to, and when Gluon's runs."""

import ctypes
import re
from dataclasses import replace
from importlib.resources import files

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from offline_compiler import cuda_instructions
from tests.kernels.hopper.absent_driver import AbsentDriver, memory
from tests.kernels.launched import assert_forward

from attenio.kernels import cpu, hopper
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.choice import launches
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import latent
from attenio.kernels.hopper.cuda import driver, proving
from attenio.kernels.hopper.cuda import split_latents as cuda
from attenio.kernels.hopper.cuda.split_latents import CudaLatentTiles, LatentBuild, LatentWork, latent_source
from attenio.kernels.hopper.joined_runs import join_kernel
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.hopper.tiles import SHARED_BYTES
from attenio.kernels.replay.tape import recorded

BUILDS = [
    LatentBuild(CudaLatentTiles(cluster=cluster, ahead=ahead), ranged, wide_runs)
    for cluster in (1, 2) for ahead in (0, 2) for ranged in (False, True) for wide_runs in (False, True)
]  # fmt: skip


def problem_of(batch, kv_heads, group, queries, keys, d=576, columns=None, **options):
    q = torch.randn(batch, kv_heads * group, queries, d).bfloat16()
    k = torch.randn(batch, kv_heads, keys, columns or d).bfloat16()[..., :d]
    visible = visibility_of(q, k, CallArguments(**options), (batch,))
    return KernelProblem.of_heads(q, k, k[..., :512], visible, d**-0.5)


class Driver(AbsentDriver):
    """Computes the runs of a launch."""

    def _compute(self, programs, q_map, k_map, work):
        work = self._structure(LatentWork, work)
        assert all(box == (1, 1, 64, 64) for *_, box in self.maps.values())
        q, k = self._tensor(q_map), self._tensor(k_map)
        (batch, kv_heads, rows, _), keys = q.shape, k.shape[2]
        assert (kv_heads, rows, q.data_ptr()) == (work.kv_heads, work.row_count, work.Queries) and q.is_contiguous()
        steps = zip((work.batch_step, work.head_step), k.stride(), k.shape, strict=False)
        assert work.Keys == k.data_ptr() and all(size == 1 or mine == step for mine, step, size in steps)
        assert work.row_tiles == -(-rows // 64) and programs == batch * kv_heads * work.splits * work.row_tiles
        assert 0 <= work.first_key < work.stop_key <= keys
        size = (batch * kv_heads, work.splits, rows)
        kind, count = (torch.float32 if 1 < work.splits < 16 else torch.bfloat16), batch * kv_heads * work.splits * rows
        output = memory(work.Output, count * 512, kind).view(*size, 512)
        largest, total = (memory(each, count, torch.float32).view(size) for each in (work.Largest, work.Total))
        query = q.view(batch, kv_heads, -1, work.queries, 576).double()
        tiles = -(-(work.stop_key - work.first_key) // 64)
        for split in range(work.splits):
            first, stop = (work.first_key + (split + i) * tiles // work.splits * 64 for i in range(2))
            part = k[:, :, first : min(stop, work.stop_key)].double()
            seen = Visibility(group=query.shape[2], below=work.below - first, above=work.above - first)
            run = KernelProblem(
                query=query, key=part, value=part[..., :512], visible=seen, scale=work.scale_log2 / LOG2_E
            )  # fmt: skip
            given = output[:, split], largest[:, split], total[:, split]
            for mine, right in zip(given, forward_by_definition(run), strict=True):
                mine.copy_(right.view(mine.shape))


@pytest.fixture
def found(monkeypatch):
    fake = Driver()
    fake.replace(monkeypatch)
    monkeypatch.setattr(latent, "processors_of", lambda _device: 6)

    def joined(kernel, programs, _descriptors, arguments, constants, _options):
        assert kernel is join_kernel
        columns, width = constants[:2]
        rows = programs * columns // width
        if rows > 70:  # a program that is interpreted takes milliseconds, whatever its columns
            programs, constants = rows, (width, *constants[1:])
        with torch.utils._python_dispatch._disable_current_modes():
            kernel[(programs,)](*arguments, *constants[:-1], False)

    monkeypatch.setattr(latent, "launch", joined)
    cuda.launcher_of.cache_clear()
    yield fake
    cuda.launcher_of.cache_clear()


CASES = {
    "two heads of keys": (lambda: problem_of(1, 2, 70, 1, 6000), 2, 2),
    "two row tiles": (lambda: problem_of(1, 1, 70, 1, 3000), 2, 2),
    "several tokens, causal": (lambda: problem_of(1, 1, 24, 3, 3000, window=3000), 2, 2),
    "a window": (lambda: problem_of(1, 1, 80, 2, 4000, window=2000), 1, 2),
    "keys apart": (lambda: problem_of(1, 1, 130, 1, 3000, columns=640), 1, 0),
    "one run": (lambda: problem_of(7, 1, 66, 1, 70), 2, 2),
    "runs in 16 bits": (lambda: problem_of(1, 1, 70, 1, 6000), 2, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_launch_is_explained_and_hands_over_what_the_kernel_needs(found, name):
    torch.manual_seed(0)
    make, cluster, ahead = CASES[name]
    problem, narrow = make(), name == "runs in 16 bits"
    choice = hopper.choose(problem, 40 if narrow else 6)
    assert (choice.language, choice.name) == ("CUDA C++", "split_latents_kernel") and choice.values_in_keys
    assert (choice.kernel.cluster, choice.kernel.ahead) == (cluster, ahead)
    assert (choice.split.splits == 1) == (name == "one run") and (choice.split.splits >= 16) == narrow
    with launches() as heard:
        mine = hopper.run(problem, choice)
    assert_forward(choice, heard)
    assert heard[0].settings["RANGED"] == (problem.queries > 1)
    theirs = cpu.attend(problem)
    torch.testing.assert_close(mine.output.float(), theirs.output.float(), atol=2e-2, rtol=1e-2)
    sums = [each.largest + each.total.log2() for each in (mine, theirs)]
    torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-4)
    ((function, programs, threads, shared_bytes, stream),) = found.launches
    assert function[1:] == ("split_latents_kernel", shared_bytes) and (threads, stream) == (384, 7)
    assert programs % cluster == 0


def test_a_tape_hands_over_other_tensors(found):
    first, second = (problem_of(1, 1, 4, 1, 130) for _ in range(2))
    first, second = (replace(each, key=each.key.clone()) for each in (first, second))

    def heads(problem):
        return problem.query, problem.key

    def run(query, key):
        return tuple(latent.attend(replace(first, query=query, key=key, value=key[..., :512]), choice))

    choice = latent._choice(latent.Shape.of(first), latent.Split(0, 130, 192, 1), CudaLatentTiles(cluster=1, ahead=2))
    run(*heads(first))
    results, tape = recorded(lambda: run(*heads(first)), heads(first))
    assert tape is not None
    for problem, mine in ((first, results), (second, tape.play(heads(second), 3, 5))):
        for each, right in zip(mine, forward_by_definition(problem), strict=True):
            torch.testing.assert_close(each, right.view(each.shape), atol=1e-2, rtol=1e-2)
    assert [launch[-1] for launch in found.launches] == [7, 7, 5]


def test_the_structure_is_that_of_the_kernel():
    text = files(cuda.__package__).joinpath("split_latents_block.cu").read_text(encoding="utf-8")
    kinds = {"long long": ctypes.c_longlong, "int": ctypes.c_int, "float": ctypes.c_float}
    fields = []
    for line in re.search(r"struct Work \{(.*?)\};", text, re.S)[1].strip().splitlines():
        kind, names = re.fullmatch(
            r"(?:const )?(void|float|u16|long long|int) (.*);", line.split("//")[0].strip()
        ).groups()
        for name in names.split(", "):
            fields.append((name.strip("*"), ctypes.c_void_p if name[0] == "*" else kinds[kind]))
    assert tuple(fields) == LatentWork._fields_
    assert cuda.SHARED_BYTES <= SHARED_BYTES


@pytest.mark.parametrize("build", [BUILDS[5], BUILDS[15]], ids=lambda build: build.name)
def test_the_kernel_spills_nothing_in_its_loop_and_multiplies_on_tensor_cores(build, tmp_path):
    counts = cuda_instructions(latent_source("f16" if build.ranged else "bf16", build), tmp_path)
    # Numbers of the block that threads hold in the beginning and the end.
    assert counts.pop("LDL", 0) <= 3 and counts.pop("STL", 0) <= 3
    # Scores 16 columns deep; values 16 keys deep of an own tile, of the other consumer's and of its last.
    assert counts == {"HGMMA.64x64x16": 36, "HGMMA.64x256x16": 3 * 4}


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_the_problem_that_proves_a_build_is_computed_by_it(monkeypatch, build):
    ran = []

    def attend(problem, choice):
        ran.append((problem, choice))
        return Attended(*forward_by_definition(problem))

    batch, kv_heads, queries, keys = cuda._TRIAL
    assert batch * kv_heads * 3 * build.tiles.cluster > 132 or build.tiles.cluster == 1
    monkeypatch.setattr(cuda, "_TRIAL", (1, kv_heads, queries, keys))
    monkeypatch.setattr(latent, "attend", attend)
    mine, theirs = latent._computed_twice(build, torch.bfloat16, torch.device("cpu"))
    assert len(mine) == len(theirs) == 2 * 2 * kv_heads
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))
    problem, choice = ran[0]
    assert cuda.tiles_of(problem) == choice.kernel == build.tiles and latent.is_aligned(problem.key)
    assert problem.group * problem.queries % 64 and (choice.split.stop - choice.split.first) % 64


def test_gluon_takes_what_the_cuda_kernel_does_not():
    plain, one_tile = problem_of(1, 1, 40, 2, 300, is_causal=True), problem_of(1, 1, 64, 1, 300)
    packed = problem_of(1, 1, 3, 5, 300, cu_seqlens=(torch.tensor([0, 2, 5]), torch.tensor([0, 130, 300])))
    narrow = problem_of(1, 1, 16, 1, 300, d=544)
    languages = [hopper.choose(each, 132).language for each in (plain, one_tile, packed, narrow)]
    languages.append(hopper.choose(replace(plain, sinks=torch.zeros(40)), 132).language)
    assert languages == ["CUDA C++", *["Gluon"] * 4]
    assert hopper.choose(packed, 132).folds_sinks


@pytest.mark.parametrize("what", ["no NVRTC", "not right"])
def test_gluon_runs_where_the_cuda_kernel_does_not(monkeypatch, what):
    if what == "no NVRTC":
        monkeypatch.setattr(cuda, "can_compile", lambda _device: False)
    else:
        monkeypatch.setattr(cuda, "is_ready", lambda *_given: False)
    choice = hopper.choose(problem_of(1, 1, 128, 1, 8192), 132)
    assert (choice.language, choice.kernel) == ("Gluon", latent.TILES)


def test_a_build_is_ready_once_it_is_proven_and_loaded(monkeypatch):
    asked, state, device = [], {"captures": True, "right": False}, torch.device("cuda", 0)
    monkeypatch.setattr(cuda, "_ready", set())
    monkeypatch.setattr(torch.cuda, "device", lambda _device: torch.no_grad())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["captures"])
    monkeypatch.setattr(cuda, "is_proven", lambda name, *_: asked.append(name) or state["right"])
    monkeypatch.setattr(cuda, "launcher_of", lambda *_: asked.append("loaded"))

    def ready():
        return cuda.is_ready(BUILDS[0], torch.bfloat16, device, lambda: pytest.fail("computed"))

    assert not ready() and not asked
    state["captures"] = False
    assert not ready() and asked == [BUILDS[0].name]
    state["right"] = True
    assert ready() and asked == [BUILDS[0].name, BUILDS[0].name, "loaded"]
    state["captures"] = True
    assert ready() and len(asked) == 3
    assert len({build.name for build in BUILDS}) == len(BUILDS)


def test_what_the_driver_refuses_is_told_and_gluon_runs(monkeypatch, recwarn):
    monkeypatch.setattr(proving, "_failed", set())
    monkeypatch.setattr(torch.cuda, "device", lambda _device: torch.no_grad())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    def right(*_given, **_options):
        raise driver.DriverError("cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE")

    monkeypatch.setattr(proving, "is_right", right)
    assert not cuda.is_ready(BUILDS[3], torch.bfloat16, torch.device("cuda", 0), lambda: None)
    assert [str(each.message) for each in recwarn] == [
        f"CUDA C++, {BUILDS[3].name}: cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE; Gluon runs instead"
    ]
