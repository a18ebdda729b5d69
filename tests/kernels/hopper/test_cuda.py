"""Kernels in CUDA C++, without a GPU: tiles fit, texts compile, and what they compile to spills nothing."""

import threading
from collections import Counter

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper import candidates, forward
from attenio.kernels.hopper.cuda import attenio, compiler
from attenio.kernels.hopper.cuda.attenio import constants_of, products_of
from attenio.kernels.hopper.cuda.compiler import CompileError
from attenio.kernels.hopper.cuda.key_stationary import WIDTHS as WIDTHS_OF_GRADIENTS
from attenio.kernels.hopper.cuda.key_stationary import columns_of, dq_columns, gradient_source, shared_bytes
from attenio.kernels.hopper.cuda.proving import is_proven
from attenio.kernels.hopper.cuda.source import source
from attenio.kernels.hopper.cuda.tiles import WIDTHS, CudaTiles, cuda_columns, cuda_tiles
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.ranking import Extent, ranked_tiles
from attenio.kernels.hopper.tiles import SHARED_BYTES

CAUSAL = Band(above=0)


@pytest.fixture(autouse=True)
def kept_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_tiles_fit_an_sm(widths):
    tiles = cuda_tiles(*widths)
    assert 2 <= len(tiles) <= 8 and len(set(tiles)) == len(tiles)
    for each in tiles:
        assert each.key_tile % 16 == 0 and each.blocks * (each.shared_bytes(*widths) + 1024) <= SHARED_BYTES + 1024
        # What consumers take is what a block was given at its start, and the producer gave away.
        at_start = 128 * (each.consumers + 1) * each.registers_at_start
        assert each.consumers * 128 * each.registers + 128 * 24 <= at_start <= 2**16 // each.blocks


def test_heads_are_computed_in_the_next_columns_where_keys_are_as_wide_as_values():
    assert [cuda_columns(*widths) for widths in ((192, 128), (80, 80), (128, 64))] == [(192, 128), (96, 96), None]


def test_only_a_length_that_tiles_divide_has_no_masks():
    (tiles, *_) = cuda_tiles(96, 96)
    assert dict(constants_of(tiles, (96, 96), (96, 96), Band(), 4 * tiles.key_tile))["MASKED"] == 0
    assert dict(constants_of(tiles, (96, 96), (96, 96), Band(), 4 * tiles.key_tile + 8))["MASKED"] == 1
    assert dict(constants_of(tiles, (96, 96), (96, 96), CAUSAL, 4 * tiles.key_tile))["MASKED"] == 1


def test_products_have_a_multiple_of_16_columns_and_shared_memory_whole_panels():
    (tiles, *_) = cuda_tiles(96, 96)
    constants = dict(constants_of(tiles, (96, 96), (72, 80), Band(), 1024))
    assert [constants[name] for name in ("D", "V", "STORED_D", "STORED_V")] == [80, 80, 96, 96]


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_all_rows_of_the_problem_that_proves_a_kernel_see_a_key(monkeypatch, widths):
    tried = []
    monkeypatch.setattr(candidates, "_computed_twice", lambda _tiles, _kind, lengths, masked: tried.append(lengths))
    monkeypatch.setattr(candidates, "is_proven", lambda _name, _dtype, _device, both: both() is None)
    monkeypatch.setattr(candidates.cuda, "begin_compiling_attenio", lambda *_: None)  # nobody waits for it
    query = torch.zeros(1, 1, 1, 64, widths[0], dtype=torch.bfloat16)
    heads = {"query": query, "key": query[:, 0], "value": torch.zeros(1, 1, 64, widths[1])}
    kind = ForwardKind.of(KernelProblem(**heads, visible=Visibility(group=1), scale=1.0))
    assert all(candidates.cuda_is_proven(tiles, kind) for tiles in cuda_tiles(*widths))
    assert len(tried) == len(cuda_tiles(*widths)) and all(keys >= queries for queries, keys in tried)


@pytest.mark.parametrize("widths", [(96, 96), (80, 80), (192, 192), (192, 128)], ids=str)
def test_tiles_of_cuda_are_ranked_only_where_the_kernel_runs(widths):
    extent = Extent(32, 16384, 16384, Band())
    assert not any(isinstance(tiles, CudaTiles) for tiles in ranked_tiles(*widths, extent, 132))
    assert isinstance(ranked_tiles(*widths, extent, 132, cuda=True)[0], CudaTiles)


@pytest.mark.parametrize("index, widths", [(0, (192, 128)), (1, (192, 192))], ids=str)
def test_the_kernel_spills_nothing_and_multiplies_on_tensor_cores(index, widths, tmp_path):
    from offline_compiler import cuda_instructions

    tiles = cuda_tiles(*widths)[index]
    element, band = ("bf16", CAUSAL) if index == 0 else ("f16", Band(below=-99, above=0))
    constants, products = dict(constants_of(tiles, widths, widths, band, 1000)), products_of(tiles.key_tile, widths[1])
    counts = cuda_instructions(source("attenio", element, constants, products), tmp_path)
    # Scores before the loops and outputs after them, and both in loops with and without masks, 16 deep each.
    scores, outputs = f"HGMMA.64x{tiles.key_tile}x16", f"HGMMA.64x{widths[1]}x16"
    assert counts == {scores: 3 * widths[0] // 16, outputs: 3 * tiles.key_tile // 16}


def test_in_clusters_the_producer_alone_spills(tmp_path):
    from offline_compiler import cuda_instructions

    (tiles,) = (each for each in cuda_tiles(256, 256) if each.cluster > 1)
    constants = dict(constants_of(tiles, (256, 256), (248, 248), Band(), 1000))
    found = cuda_instructions(source("attenio", "bf16", constants, products_of(tiles.key_tile, 256)), tmp_path)
    assert found.pop("LDL", 0) < 16 and found.pop("STL", 0) < 16  # consumers' arrays would take hundreds
    assert set(found) == {f"HGMMA.64x{tiles.key_tile}x16", "HGMMA.64x256x16"}


@pytest.mark.parametrize("widths", [(64, 64), (128, 128), (256, 256)], ids=str)
def test_of_packed_sequences_the_producer_alone_spills(widths, tmp_path):
    from offline_compiler import cuda_instructions

    tiles = cuda_tiles(*widths)[0]
    constants = dict(constants_of(tiles, widths, widths, Band(packed=True), 1000))
    found = cuda_instructions(source("attenio", "bf16", constants, products_of(tiles.key_tile, widths[1])), tmp_path)
    assert found.pop("LDL", 0) < 64 and found.pop("STL", 0) < 64  # consumers' arrays would take hundreds
    assert set(found) == {f"HGMMA.64x{tiles.key_tile}x16", f"HGMMA.64x{widths[1]}x16"}


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_what_a_producer_tells_consumers_of_packed_sequences_fits_an_sm_as_well(monkeypatch, widths):
    taken = []
    monkeypatch.setattr(attenio, "CudaLauncher", lambda kernel: taken.append(kernel.shared_bytes))
    for tiles in cuda_tiles(*widths):
        if tiles.cluster == 1:
            constants = constants_of(tiles, widths, widths, Band(packed=True), 1000)
            attenio.launcher_of.__wrapped__("bf16", tiles, constants, torch.device("cpu"))
            more = taken[-1] - tiles.shared_bytes(*widths)
            assert more == 4 * 8 * tiles.consumers * tiles.query_buffers  # ENTRIES of NUMBERS, as in the kernel
            assert tiles.blocks * (taken[-1] + 1024) <= SHARED_BYTES + 1024


@pytest.mark.parametrize("d", WIDTHS_OF_GRADIENTS)
@pytest.mark.parametrize("masked, whole_heads", [(False, False), (True, False), (True, True)])
def test_the_gradients_spill_nothing_and_multiply_on_tensor_cores(masked, whole_heads, d, tmp_path):
    _expect_products_only(d, tmp_path, masked=masked, whole_heads=whole_heads)


@pytest.mark.parametrize("d", [64, 96, 128])
def test_gradients_of_packed_sequences_spill_as_little(d, tmp_path):
    _expect_products_only(d, tmp_path, masked=True, packed=True)


@pytest.mark.parametrize("d", WIDTHS_OF_GRADIENTS)
def test_numbers_of_blocks_of_packed_sequences_fit_an_sm_as_well(d):
    more = shared_bytes(d, whole_heads=False, packed=True) - shared_bytes(d, whole_heads=False)
    assert more == 2 * 4 * (12 - 2)  # NUMBERS of two buffers of keys, as in the kernel
    assert shared_bytes(d, whole_heads=False, packed=True) <= SHARED_BYTES


def _expect_products_only(d, tmp_path, *, masked, whole_heads=False, packed=False):
    from offline_compiler import cuda_instructions

    # S and dP before the loops, dV and dK after them, and all of these in each loop; dQ of 128 keys. S and dP have 16
    # columns more, the offsets of rows. Consumers run the same code but for long heads of 128 columns. Of packed
    # sequences a tile of rows may be masked wherever it is, and the compiler has a third loop for them.
    loops, scores, gradients, dq = 1 + masked + packed, 2 * (d // 16 + 1), 2 * 64 // 16, 128 // 16
    found = cuda_instructions(
        gradient_source("bf16", d, masked=masked, whole_heads=whole_heads, packed=packed), tmp_path
    )
    if dq_columns(d) == d:
        expected = Counter({"HGMMA.64x64x16": (1 + loops) * scores})
        expected[f"HGMMA.64x{d}x16"] += (1 + loops) * gradients + dq
    else:
        # Consumers compute dQ: in the loops that of the tile before, which a block's first step does not have, and
        # after them also that of the last, or only this. The producer has 24 registers, and spills some of its own.
        codes = 1 if whole_heads or packed else 2
        expected = Counter({"HGMMA.64x64x16": codes * ((2 + loops) * scores + (loops + 3) * dq)})
        expected[f"HGMMA.64x{d}x16"] += codes * (3 + loops) * gradients
        most = 25 if whole_heads or packed else 10
        assert found.pop("LDL", 0) < most and found.pop("STL", 0) < most
    assert found == expected


def test_gradients_in_cuda_are_those_of_heads_up_to_128_wide_in_bf16():
    def columns(d=64, n=1024, dtype=torch.bfloat16, **seen):
        q = torch.zeros(1, 1, 1, 1, 1, dtype=dtype).expand(1, 2, 1, n, d)
        heads = {"query": q, "key": q[:, :, 0], "value": q[:, :, 0]}
        problem = KernelProblem(**heads, visible=Visibility(group=1, **seen), scale=1.0)
        return columns_of(problem)

    assert [columns(), columns(d=40, n=4096), columns(d=72), columns(d=96, above=0)] == [64, 48, 80, 96]
    assert (columns(d=8), columns(d=104), columns(d=128, n=4096, above=0)) == (16, 112, 128)
    assert not any(columns(**each) for each in ({"d": 136}, {"below": -99}, {"dtype": torch.float16}))


def test_what_was_compiled_is_kept(monkeypatch):
    if compiler.library() is None:
        pytest.skip("NVRTC is not installed (package nvidia-cuda-nvrtc)")
    text = 'extern "C" __global__ void nothing() {}'
    cubin = compiler.compiled(text)
    monkeypatch.setattr(compiler, "_compiled", lambda *_: pytest.fail("compiled again"))
    assert compiler.compiled(text) == cubin


def test_what_was_begun_on_a_thread_is_waited_for_and_compiled_once(monkeypatch):
    made = []

    def compile_slowly(text):
        if text == "wrong":
            raise CompileError("no such instruction")
        made.append(threading.current_thread().name)
        return b"cubin"

    monkeypatch.setattr(compiler, "_made", compile_slowly)
    monkeypatch.setattr(compiler, "_begun", {})
    compiler.begin_compiling("right")
    compiler.begin_compiling("wrong")
    assert compiler.compiled("right") == b"cubin" and [name.split("_")[0] for name in made] == ["nvrtc"]
    with pytest.raises(CompileError, match="no such instruction"):
        compiler.compiled("wrong")
    compiler.begin_compiling("right")
    assert compiler.compiled("right") == b"cubin" and len(made) == 1


def test_what_does_not_compile_is_told_once(recwarn):
    def both():
        raise CompileError("no such instruction")

    device = torch.device("cuda", 0)
    assert [_proven_on(device, both) for _ in range(2)] == [False, False]
    assert [str(each.message) for each in recwarn] == ["CUDA C++, toy: no such instruction; Gluon runs instead"]


def _proven_on(device, both):
    from attenio.kernels.hopper import proving

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(proving, "recalled", lambda *_: None)
        patched.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        return is_proven("toy", torch.bfloat16, device, both)


def test_without_nvrtc_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(compiler, "library", lambda: None)
    with pytest.raises(CompileError, match="install the package nvidia-cuda-nvrtc"):
        compiler.compiled("")


def test_a_choice_says_what_it_is_written_in():
    choice = forward._choice(cuda_tiles(96, 96)[0], 4096, 4096)
    assert (choice.language, choice.name, choice.tiles["key_tile"]) == ("CUDA C++", "attenio_kernel", 112)
    assert choice.folds_sinks
