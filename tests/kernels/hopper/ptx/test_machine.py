"""The interpreter itself, on kernels of a few instructions: what they must not do is found, and told."""

import re

import numpy as np
import pytest
import torch
from tests.kernels.hopper.ptx.copies import TensorMap
from tests.kernels.hopper.ptx.machine import Launch
from tests.kernels.hopper.ptx.matrices import box_words, from_sums, operand_words, to_sums
from tests.kernels.hopper.ptx.shared import Fault

# Shared memory has a barrier at 0, D_FULL, and then 128 bytes for 32 numbers.
HEAD = """
.global .align 4 .u32 D_FULL = 0;
.extern .shared .align 1024 .b8 memory[];
.visible .entry toy(.param .align 64 .b8 toy_param_0[128], .param .align 8 .b8 toy_param_1[8])
{
.reg .pred %p<9>;
.reg .f32 %f<99>;
.reg .b32 %r<99>;
.reg .b64 %rd<9>;
mov.u32 %r1, %tid.x;
mov.u64 %rd1, memory;
cvt.u32.u64 %r2, %rd1;
mov.b64 %rd2, toy_param_1;
ld.param.u64 %rd3, [%rd2];
and.b32 %r3, %r1, 31;
shl.b32 %r4, %r3, 2;
add.s32 %r5, %r2, %r4;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd3, %rd4;
setp.ne.s32 %p1, %r1, 0;
"""
WAIT = """{{
.reg .pred done;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 done, [%r2], {};
@done bra DONE;
bra WAIT;
DONE:
}}
"""
INIT = """@%p1 bra $started;
mbarrier.init.shared::cta.b64 [%r2], {};
fence.proxy.async.shared::cta;
$started:
bar.sync 0;
"""


def run(body, *, threads=64, seed=0, count=64):
    """The numbers that a kernel leaves in the memory that it is given."""
    memory = torch.zeros(count, dtype=torch.float32)
    parameters = [b"", np.array([memory.data_ptr()], "u8").tobytes()]
    maps = [TensorMap("bf16", 0, (), (), ())]
    Launch(HEAD + body + "ret;\n}\n", 1, threads, 256, maps, parameters, seed=seed).run()
    return memory.tolist()


def test_lanes_part_and_meet_again():
    body = """
    setp.lt.s32 %p2, %r3, 5;
    mov.f32 %f1, 0f3F800000;
    @%p2 bra $small;
    mov.f32 %f1, 0f40000000;
    $small:
    shfl.sync.bfly.b32 %f2|%p3, %f1, 16, 31, -1;
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd5], %f1;
    """
    assert run(body) == [3.0 if lane % 16 < 5 else 4.0 for lane in range(64)]


def test_a_warp_sees_what_another_wrote_before_it_arrived():
    body = f"""{INIT.format(1)}
    setp.ge.s32 %p2, %r1, 32;
    @%p2 bra $second;
    cvt.rn.f32.u32 %f1, %r1;
    st.shared.f32 [%r5+128], %f1;
    @%p1 bra $end;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    bra $end;
    $second:
    {WAIT.format(0)}
    ld.shared.f32 %f1, [%r5+128];
    st.global.f32 [%rd5], %f1;
    $end:
    """
    for seed in range(5):
        assert run(body, seed=seed)[32:] == list(range(32))


@pytest.mark.parametrize(
    "body, told",
    [
        ("ld.shared.f32 %f1, [%r5+128];", "nothing wrote it"),
        ("st.shared.f32 [%r5+160], %f1;", "160..288 of 256 bytes"),
        ("st.global.f32 [%rd5+128], %f1;", "global memory"),
        ("st.shared.f32 [%r5+126], %f1;", "not aligned"),
        (INIT.format(1) + WAIT.format(0), r"warp 1 of block 0 waits for D_FULL\[0\] parity 0"),
        (INIT.format(1) + "mbarrier.arrive.shared::cta.b64 _, [%r2];", "more threads arrive"),
        ("st.shared.f32 [%r2+128], %f1;", "without waiting for who wrote it before"),
        ("@%p1 bra $one;\nbar.sync 0;\n$one:\n", "not all lanes"),
        ("@%p1 bra $end;\nbar.sync 1, 96;\n$end:\n", "not all lanes"),
        ("bar.sync 1, 96;", "waits for barrier 1"),
        ("wgmma.commit_group.sync.aligned;\nfoo.bar %r1;\n", "foo.bar"),
    ],
    ids=lambda text: re.sub(r"\W+", " ", text)[:40],
)
def test_what_a_kernel_must_not_do_is_told(body, told):
    with pytest.raises((Fault, NotImplementedError), match=told):
        run(body)


FENCE = "wgmma.fence.sync.aligned;\n"
START = "mov.f32 %f0, 0f3F800000;\nmov.u64 %rd6, 64;\nmov.u64 %rd7, 64;\nsetp.eq.s32 %p2, 0, 0;\n"
SUMS = ", ".join(f"%f{index}" for index in range(4))
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{SUMS}}}, %rd6, %rd7, %p2, 1, 1, 0, 0;\n"


@pytest.mark.parametrize(
    "before, after, told",
    [
        ("", "", "changed after the last wgmma.fence"),
        (
            "wgmma.fence.sync.aligned;\n",
            "wgmma.commit_group.sync.aligned;\nadd.f32 %f9, %f1, %f1;\n",
            "unsupported operand",
        ),
        ("wgmma.fence.sync.aligned;\n", "", r"nothing wrote it|ends before its products"),
    ],
    ids=["no fence", "no wait", "no end"],
)
def test_products_are_fenced_and_waited_for(before, after, told):
    with pytest.raises((Fault, TypeError), match=told):
        run(START + before + PRODUCT + after, threads=128)


def test_a_barrier_that_completes_twice_unseen_is_told():
    body = f"""{INIT.format(1)}
    setp.ge.s32 %p2, %r1, 32;
    @%p2 bra $second;
    @%p1 bra $told;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    $told:
    bar.sync 1, 64;
    bra $end;
    $second:
    bar.sync 1, 64;
    {WAIT.format(0)}
    $end:
    """
    with pytest.raises(Fault, match="completed 2 phases more before it was seen"):
        run(body)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_products_read_a_box_as_tma_writes_it(width):
    rows, start = 64, 2048
    words = box_words(start, rows, 2 * width)
    assert len(set(words.ravel().tolist())) == words.size
    swizzle = {64: 1, 32: 2, 16: 3}[width]
    descriptor = swizzle << 62 | (8 * 2 * width >> 4) << 32 | (rows * 2 * width >> 4) << 16
    for first in range(0, width, 16):  # by rows: 16 columns of all rows
        found = operand_words(descriptor | start + 2 * first >> 4, False, 0, rows)
        assert (found == words[:, first // 2 : first // 2 + 8]).all()
    for first in range(0, rows, 16):  # by columns: all columns of 16 rows
        found = operand_words(descriptor | start + 2 * width * first >> 4, True, 0, width)
        assert (found == words[first : first + 16]).all()


def test_sums_lie_in_registers_as_the_manual_says():
    matrix = np.arange(16 * 24, dtype="f4").reshape(16, 24)
    registers = to_sums(matrix)
    assert (from_sums(registers) == matrix).all()
    for index, register in enumerate(registers):
        for lane in range(32):
            row, column = lane // 4 + 8 * (index // 2 % 2), index // 4 * 8 + lane % 4 * 2 + index % 2
            assert register[lane] == matrix[row, column]
