"""Decode of latents by the kernel in CUDA C++, interpreted: blocks of a cluster load for each other."""

import pytest

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from tests.kernels.hopper.ptx.interpreting import latents, off

from attenio.kernels.hopper.cuda import compiler

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="NVRTC is not installed")


def test_runs_of_two_blocks_that_load_for_each_other_are_those_of_the_definition():
    mine, right = latents(group=33, queries=2, keys=400, above=398, cluster=2, seed=0)
    assert off(mine, right) < 2.0**-7
