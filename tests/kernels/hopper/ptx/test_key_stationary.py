"""Gradients by the kernel in CUDA C++, interpreted: right in every order, and what is wrong with its waits is found."""

import pytest

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from tests.kernels.hopper.ptx.interpreting import Heads, gradients, off
from tests.kernels.hopper.ptx.shared import Fault

from attenio.kernels.hopper.cuda import compiler

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="NVRTC is not installed")

LONG = Heads((1, 2, 1, 150, 200), (64, 56), above=50)
WHOLE = Heads((1, 1, 1, 130, 260), (128, 120), above=130, programs=1)
# Sequences that end within tiles, one of no rows, and one that is as long as many tiles.
PACKED = Heads((1, 2, 1, 300, 310), (64, 56), packed=(((100, 101, 170, 300), (90, 95, 170, 310)),))
# Each of the batch has its own; rows of the second see nothing of some.
APART = Heads((2, 3, 3, 130, 150), (40, 40), packed=(((60, 130), (20, 150)), ((130, 130), (0, 150))), programs=3)
WIDE = Heads((1, 2, 1, 200, 270), (128, 128), packed=(((50, 200), (120, 270)),), window=(-1, 30))


@pytest.mark.parametrize(
    "heads, whole, seed",
    [
        (LONG, False, 0),
        (LONG, False, 1),
        (Heads((2, 1, 1, 64, 130), (64, 64)), False, 2),
        (Heads((1, 1, 1, 130, 150), (96, 96), above=20), False, 3),
        (Heads((3, 1, 1, 64, 70), (128, 128), above=6), True, 4),
    ],
    ids=str,
)
def test_gradients_are_those_of_the_definition_in_every_order(heads, whole, seed):
    assert off(*gradients(heads, whole=whole, seed=seed)) < 2.0**-7


@pytest.mark.parametrize(
    "heads, seed",
    [
        (PACKED, 0),
        (PACKED._replace(is_causal=True, widths=(96, 96)), 1),
        (APART._replace(is_causal=True), 2),
        (WIDE, 3),
        (WIDE._replace(is_causal=True, window=(40, 0), programs=1), 4),
    ],
    ids=str,
)
def test_gradients_of_packed_sequences_are_those_of_the_definition(heads, seed):
    assert off(*gradients(heads, whole=False, seed=seed)) < 2.0**-7


def test_the_order_in_which_warps_run_does_not_change_gradients_of_whole_heads():
    first, second = (gradients(WHOLE, whole=True, seed=seed) for seed in (5, 6))
    assert off(*first) < 2.0**-7
    assert all((each == other).all() for each, other in zip(first[0], second[0], strict=True))


_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
_FREE = "barrier_wait(shared + DS_FREE + 8 * slot, tile.number / SLOTS & 1 ^ 1);\n"
_BEGINS = '    if (place.begins)\n        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");\n    else\n'


@pytest.mark.parametrize(
    "whole, written, instead, told",
    [
        (False, f"{_FREE}    share_ds", "share_ds", "written without waiting for who reads it"),
        (False, f"{_FENCE}    __syncwarp();", "__syncwarp();", "without a fence after its writes"),
        (True, _BEGINS, "", "what was written there was not waited for"),
    ],
    ids=["no wait for dS", "no fence", "sums not there"],
)
def test_what_is_missing_is_found(whole, written, instead, told):
    def edited(text):
        assert written in text
        return text.replace(written, instead)

    with pytest.raises(Fault, match=told):
        gradients(Heads((1, 1, 1, 330, 300), (32, 32), above=0), whole=whole, seed=0, edited=edited)
