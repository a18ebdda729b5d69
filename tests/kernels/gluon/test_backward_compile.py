"""The backward kernels of Hopper compile without a GPU: every product on tensor cores, every register where it was."""

from typing import NamedTuple

import pytest
from offline_compiler import instructions_of

from attenio.kernels.gluon.backward.forms import backward_form

_BUILT = """
from attenio.kernels.gluon.backward.forms import backward_form

TYPES = {"Lse": "*fp32", "Delta": "*fp32", "Fineness": "*fp32", "FirstRows": "*i32", "StopRows": "*i32",
         "scale": "fp32", "slope": "fp32"}

def built(width, dtype, hides, packed, adds, whole):
    form = backward_form(width)
    names = [name for name in form.kernel.arg_names if name.isupper()]
    constants = form.constants(hides=hides, packed=packed, adds=adds)
    fixed = dict(zip(names, constants, strict=True))
    halves, sums = gl.NVMMASharedLayout(128, 16, rank=4), gl.NVMMASharedLayout(0, 32, rank=4)
    gradient = box([1, 1, form.d, 64], "fp32", sums) if adds else box([1, 1, 64, form.d], dtype, halves)
    rows, kept = box([1, 1, form.rows, form.d], dtype, halves), box([1, 1, 64, form.columns], dtype, halves)
    left = box([1, 1, 64, 64], "i32" if whole else "fp32", sums)
    if form.spills:
        left = box([1, 1, 64, form.rows], dtype, halves)
    boxes = [rows, kept, kept, rows, gradient, gradient, left]
    signature, constants = {}, {}
    for index, name in enumerate(form.kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        else:
            signature[name] = boxes[index] if index < 7 else TYPES.get(name, "i32")
    return compiled(form.kernel, signature, constants, {"num_warps": 4, "maxnreg": 168})
"""


class Variant(NamedTuple):
    """A kernel and what it is compiled for."""

    width: int
    dtype: str = "bf16"
    hides: bool = False
    packed: bool = False
    adds: bool = False
    whole: bool = False


VARIANTS = {
    "narrow": Variant(64, hides=True),
    "narrow, integers": Variant(64, "fp16", hides=True, whole=True),
    "middle": Variant(128),
    "middle, masked": Variant(96, hides=True),
    "middle, integers": Variant(128, whole=True),
    "middle, packed integers": Variant(128, hides=True, packed=True, whole=True),
    "middle in fp16": Variant(128, "fp16"),
    "middle in fp16, masked": Variant(96, "fp16", hides=True),
    "middle in fp16, packed integers": Variant(128, "fp16", hides=True, packed=True, whole=True),
    "wide": Variant(256, hides=True),
    "wide, packed": Variant(192, "fp16", hides=True, packed=True, adds=True),
}
# Products of 64 x 64 x 16 that shares of dQ are made of.
SHARES = {"narrow_gradients_kernel": 2 * 16, "middle_gradients_kernel": 16, "wide_gradients_kernel": 0}


@pytest.fixture(scope="module")
def compiled():
    return dict(zip(VARIANTS, instructions_of(_BUILT, list(VARIANTS.values())), strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_multiplies_on_tensor_cores_and_fits(compiled, name):
    found, variant = compiled[name], VARIANTS[name]
    form = backward_form(variant.width)
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == 0
    # Each group: scores or slopes (or both) before the loop and in it; two gradients or one; dQ in it and after it, or
    # in a third group.
    deep, rows, shares = form.d // 16, form.rows // 16, SHARES[form.kernel.__name__]
    assert found["HGMMA"] == 2 * (4 * deep + 2 * rows if form.keys == 128 else 2 * deep + rows) + shares
    # Products of a group wait for each other nowhere: the compiler would otherwise start each by itself.
    assert found["WARPGROUP.ARRIVE"] <= found["HGMMA"] // 4
    # Slopes or shares of dQ leave through the copy engine, and so do gradients of keys.
    assert found["UTMALDG"] > 0
    assert found["UTMASTG"] + found["UTMAREDG"] >= 4 if form.keys == 128 else found["UTMASTG"] + found["UTMAREDG"] == 3
