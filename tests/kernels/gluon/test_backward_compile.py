"""The backward kernels of Hopper compile without a GPU: all products on tensor cores, and no register spilled."""

import pytest
from offline_compiler import instructions_of

from attenio.kernels.gluon.backward import backward_form

_BUILT = """
from attenio.kernels.gluon.backward import backward_form

SWIZZLED, PLAIN = gl.NVMMASharedLayout(128, 16, rank=4), gl.NVMMASharedLayout(0, 32, rank=4)
TYPES = {"Lse": "*fp32", "Delta": "*fp32", "scale": "fp32", "slope": "fp32"}

def built(width, dtype, hides, packed, spills, adds):
    form = backward_form(width, spills=spills)
    choices = {**form.choices, "ADDS": adds} if form.choices else {}
    fixed = dict(ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots,
                 HIDES=hides, PACKED=packed, **choices, REGISTERS=form.registers)
    types = dict(TYPES)
    if spills:
        types["dq_desc"] = box([1, 1, 64, form.rows], dtype, SWIZZLED)
    else:
        types["dq_desc"] = types["sums_desc"] = box([1, 1, 64, 64], "fp32", PLAIN)
    if adds:
        types["dk_desc"] = types["dv_desc"] = box([1, 1, form.d, 64], "fp32", PLAIN)
    for name in ("FirstRows", "StopRows"):
        if packed:
            types[name] = "*i32"
        else:
            fixed[name] = None
    signature, constants, aligned = {}, {}, {}
    for index, name in enumerate(form.kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name.endswith("_desc") and name not in types:
            shape = [1, 1, form.rows if name in ("q_desc", "do_desc") else 64, form.d]
            signature[name] = box(shape, dtype, SWIZZLED)
        else:
            signature[name] = types.get(name, "i32")
            if signature[name].startswith("*"):
                aligned[(index,)] = [["tt.divisibility", 16]]
    return compiled(form.kernel, signature, constants, {"num_warps": 4, "maxnreg": 168}, attrs=aligned)
"""
# Width, type, with a mask, of packed sequences, slopes spilled, gradients of keys added.
VARIANTS = [
    (64, "fp16", True, True, False, False),
    (64, "bf16", True, True, True, False),
    (128, "bf16", False, False, False, False),
    (128, "bf16", True, True, False, False),
    (128, "fp16", True, True, True, True),
    (192, "fp16", True, False, False, False),
]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=str)
def test_a_variant_multiplies_on_tensor_cores_and_fits(compiled, index):
    found, (width, _, _, _, spills, adds) = compiled[index], VARIANTS[index]
    form = backward_form(width, spills=spills)
    assert found["shared"] <= 227 * 2**10
    assert found["LDL"] == found["STL"] == 0
    # Each group: scores or slopes (or both) before the loop and in it; two gradients or one; dQ in it and after it.
    deep, rows, keys = form.d // 16, form.rows // 16, 64 // 16
    narrow = 2 * (4 * deep + 2 * rows + (0 if spills else 4 * keys))
    wide = 2 * (2 * deep + rows + 3 * keys)
    assert found["HGMMA"] == (narrow if form.keys == 128 else wide)
    # Products of a group wait for each other nowhere: the compiler would otherwise start each by itself.
    assert found["WARPGROUP.ARRIVE"] <= found["HGMMA"] // 4
    if form.keys == 128:
        # Shares of dQ are added in the loop and after it, or gradients of keys once; what is not added is written.
        assert found["UTMAREDG"] == (0 if spills and not adds else 4)
        assert found["UTMASTG"] == (2 if spills else 0) + (0 if adds else 4)
    assert found["UTMALDG"] > 0
