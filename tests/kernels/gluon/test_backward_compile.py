"""The backward kernels of Hopper compile without a GPU: five products on tensor cores, additions by the copy engine."""

import pytest
from offline_compiler import instructions_of

from attenio.kernels.gluon.backward import backward_form

_BUILT = """
from attenio.kernels.gluon.backward import backward_form

TYPES = {"sums_desc": box([1, 1, 64, 64], "fp32", gl.NVMMASharedLayout(0, 32, rank=4)),
         "Lse": "*fp32", "Delta": "*fp32", "FirstRows": "*i32", "StopRows": "*i32",
         "scale": "fp32", "slope": "fp32"}

def built(width, dtype, hides, ordered):
    form = backward_form(width)
    fixed = dict(ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots,
                 HIDES=hides, ORDERED=ordered, REGISTERS=form.registers)
    signature, constants, aligned = {}, {}, {}
    for index, name in enumerate(form.kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name.endswith("_desc") and name not in TYPES:
            shape = [1, 1, form.rows if name in ("q_desc", "do_desc") else 64, form.d]
            signature[name] = box(shape, dtype, gl.NVMMASharedLayout(128, 16, rank=4))
        else:
            signature[name] = TYPES.get(name, "i32")
            if signature[name].startswith("*") or name == "padded":
                aligned[(index,)] = [["tt.divisibility", 16]]
    return compiled(form.kernel, signature, constants, {"num_warps": 4, "maxnreg": 168}, attrs=aligned)
"""
# Width, type, with a mask, deterministic.
VARIANTS = [(128, "bf16", False, False), (192, "fp16", True, True)]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=[str(v[0]) for v in VARIANTS])
def test_a_variant_multiplies_on_tensor_cores_and_fits(compiled, index):
    found, form = compiled[index], backward_form(VARIANTS[index][0])
    assert found["shared"] <= 227 * 2**10
    hides = VARIANTS[index][2]
    # With a mask some addresses are spilled, but no accumulator.
    assert max(found["LDL"], found["STL"]) <= (32 if hides else 0)
    # Each group: scores or slopes (or both) before the loop and in it; two gradients or one; dQ in it and after it.
    deep, rows, keys = form.d // 16, form.rows // 16, 64 // 16
    narrow = 2 * (4 * deep + 2 * rows + 4 * keys)
    wide = 2 * (2 * deep + rows + 3 * keys)
    assert found["HGMMA"] == (narrow if form.keys == 128 else wide)
    # Products of a group wait for each other nowhere: the compiler would otherwise start each by itself.
    assert found["WARPGROUP.ARRIVE"] < found["HGMMA"] // 4
    assert found["UTMAREDG"] >= 4
    assert found["UTMALDG"] > 0 and found["UTMASTG"] > 0
