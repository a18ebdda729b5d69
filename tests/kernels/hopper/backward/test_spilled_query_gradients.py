"""The kernel that multiplies spilled dS with keys compiles without a GPU; its numbers are tested with the pass."""

import pytest
from offline_compiler import instructions_of

_BUILT = """
from attenio.kernels.hopper.backward.spilled_query_gradients import spilled_query_gradients_kernel as kernel
from attenio.kernels.hopper.backward.spilled_gradients import AHEAD, REGISTERS

TYPES = {"DQAcc": "*fp32", "Ranges": "*i32", "scale": "fp32"}

def built(dtype, d_a, d_b):
    fixed = dict(D_A=d_a, D_B=d_b, STAGES=AHEAD, REGISTERS=REGISTERS)
    if d_b == 0:
        fixed |= dict(k_b=None, dq_b=None)
    columns = dict(ds_desc=64, k_a=d_a, k_b=d_b, dq_a=d_a, dq_b=d_b)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name in columns:
            signature[name] = descriptor([1, 1, 64, columns[name]], dtype, gl.NVMMASharedLayout(128, 16, rank=4))
        else:
            signature[name] = TYPES.get(name, "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": 168})
"""


VARIANTS = [(dtype, *columns) for dtype in ("bf16", "fp16") for columns in ((256, 0), (128, 64))]


@pytest.fixture(scope="module")
def compiled():
    return dict(zip(VARIANTS, instructions_of(_BUILT, VARIANTS), strict=True))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_it_multiplies_on_tensor_cores_and_fits(compiled, variant):
    found, (_, *columns) = compiled[variant], variant
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == 0
    # Two consumers, 64 keys by 16, of each tile of columns, and a product waits for no other.
    products = 2 * len(list(filter(None, columns)))
    assert found["HGMMA"] == 4 * products and found["WARPGROUP.ARRIVE"] == products
