"""The kernel that multiplies spilled slopes with keys compiles without a GPU; its numbers are tested with the pass."""

import pytest
from offline_compiler import instructions_of

_BUILT = """
from attenio.kernels.gluon.backward.queries import query_gradients_kernel as kernel
from attenio.kernels.gluon.backward.slopes import AHEAD, REGISTERS

TYPES = {"Sums": "*fp32", "Ranges": "*i32", "slope": "fp32"}

def built(dtype):
    fixed = dict(D=256, STAGES=AHEAD, REGISTERS=REGISTERS)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name.endswith("_desc"):
            shape = [1, 1, 64, 64 if name == "slopes_desc" else 256]
            signature[name] = box(shape, dtype, gl.NVMMASharedLayout(128, 16, rank=4))
        else:
            signature[name] = TYPES.get(name, "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": 168})
"""


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_it_multiplies_on_tensor_cores_and_fits(dtype):
    (found,) = instructions_of(_BUILT, [(dtype,)])
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == 0
    # Two consumers, 64 keys by 16, and a product waits for no other.
    assert found["HGMMA"] == 2 * 4 and found["WARPGROUP.ARRIVE"] == 2
