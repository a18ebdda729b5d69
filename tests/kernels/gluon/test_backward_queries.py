"""The kernel that multiplies spilled slopes with keys compiles without a GPU; its numbers are tested with the pass."""

import pytest
from offline_compiler import instructions_of

from attenio.kernels.gluon.backward_slopes import QUERY_TILES

_BUILT = """
from attenio.kernels.gluon.backward_queries import query_gradients_kernel as kernel
from attenio.kernels.gluon.backward_slopes import QUERY_TILES

TYPES = {"Sums": "*fp32", "Ranges": "*i32", "slope": "fp32"}

def built(d, dtype):
    parts, ahead = QUERY_TILES[d]
    fixed = dict(PARTS=parts, KEYS=64 if d == 256 else 128, D=d, STAGES=ahead, REGISTERS=240)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name.endswith("_desc"):
            shape = [1, 1, 64, 64 if name == "slopes_desc" else d]
            signature[name] = box(shape, dtype, gl.NVMMASharedLayout(128, 16, rank=4))
        else:
            signature[name] = TYPES.get(name, "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": 168})
"""
VARIANTS = [(64, "fp16"), (128, "bf16"), (256, "bf16")]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=[str(d) for d, _ in VARIANTS])
def test_it_multiplies_on_tensor_cores_and_fits(compiled, index):
    found, (parts, _) = compiled[index], QUERY_TILES[VARIANTS[index][0]]
    assert found["shared"] <= 227 * 2**10
    assert found["LDL"] == found["STL"] == 0
    # Two consumers, 64 keys by 16; the products of 64 rows wait for each other nowhere.
    assert found["HGMMA"] == 2 * parts * 4
    assert found["WARPGROUP.ARRIVE"] == 2 * parts
