"""The backward kernels of Hopper compile without a GPU: every product on tensor cores, every register where it was."""

from typing import NamedTuple

import pytest
from offline_compiler import instructions_of

from attenio.kernels.hopper.backward.config import backward_config
from attenio.kernels.hopper.tiles import side_by_side

_BUILT = """
from attenio.kernels.hopper.backward.config import backward_config
from attenio.kernels.hopper.tiles import side_by_side

TYPES = {"Lse": "*fp32", "Delta": "*fp32", "DQScale": "*fp32", "FirstRows": "*i32", "StopRows": "*i32",
         "scale_log2": "fp32", "scale": "fp32"}

def built(d, width, dtype, masked, packed, adds, fixed_point):
    config = backward_config(d, width)
    names = [name for name in config.kernel.arg_names if name.isupper()]
    constants = config.constants(masked=masked, packed=packed, adds=adds)
    fixed = dict(zip(names, constants, strict=True))
    plain, narrow = gl.NVMMASharedLayout(0, 32, rank=4), config.d == 64

    def tile(height, columns):
        return descriptor([1, 1, height, columns], dtype, gl.NVMMASharedLayout(min(128, 2 * columns), 16, rank=4))

    def tiles(height, columns):
        cut = (columns,) if narrow else side_by_side(columns)
        return [tile(height, each) if each else None for each in cut]

    if config.spills:
        left = [tile(64, config.rows)]
    else:
        heights = (64,) if narrow else (64, config.d % 64)
        accumulators = "i32" if fixed_point else "fp32"
        left = [descriptor([1, 1, each, 64], accumulators, plain) if each else None for each in heights]

    def gradients(columns):
        if not adds:
            return tiles(64, columns)
        return [descriptor([1, 1, each, 64], "fp32", plain) if each else None for each in side_by_side(columns)]

    descriptors = [*tiles(config.rows, config.d), *tiles(64, 128 if config.d == 256 else config.d),
             *tiles(64, 128 if config.width == 256 else config.width), *tiles(config.rows, config.width),
             *gradients(config.d), *gradients(config.width), *left]
    signature, constants = {}, {}
    for index, name in enumerate(config.kernel.arg_names):
        if name in fixed or index < len(descriptors) and descriptors[index] is None:
            signature[name], constants[(index,)] = "constexpr", fixed.get(name)
        else:
            signature[name] = descriptors[index] if index < len(descriptors) else TYPES.get(name, "i32")
    return compiled(config.kernel, signature, constants, {"num_warps": 4, "maxnreg": 168})
"""


class Variant(NamedTuple):
    """A kernel and what it is compiled for."""

    d: int
    width: int
    dtype: str = "bf16"
    masked: bool = False
    packed: bool = False
    adds: bool = False
    fixed_point: bool = False


VARIANTS = {
    "narrow": Variant(64, 64, masked=True),
    "narrow, integers": Variant(64, 64, "fp16", masked=True, fixed_point=True),
    "middle": Variant(128, 128),
    "middle, masked": Variant(96, 96, masked=True),
    "middle, integers": Variant(128, 128, fixed_point=True),
    "middle, packed integers": Variant(128, 128, masked=True, packed=True, fixed_point=True),
    "middle in fp16": Variant(128, 128, "fp16"),
    "middle in fp16, masked": Variant(96, 96, "fp16", masked=True),
    "middle in fp16, packed integers": Variant(128, 128, "fp16", masked=True, packed=True, fixed_point=True),
    "wide": Variant(256, 256, masked=True),
    "wide, packed": Variant(256, 256, "fp16", masked=True, packed=True, adds=True),
    "of 192": Variant(192, 192),
    "of 192, masked": Variant(192, 192, "fp16", masked=True),
    "of 192, packed": Variant(192, 192, masked=True, packed=True, adds=True),
    "of 192 and 128": Variant(192, 128),
    "of 192 and 128, masked": Variant(192, 128, "fp16", masked=True),
    "of 192 and 128, packed": Variant(192, 128, masked=True, packed=True, adds=True),
}
# Products of 64 x 64 x 16 that shares of dQ are made of.
SHARES = {"key_stationary_d64_kernel": 2 * 16, "key_stationary_d128_kernel": 16, "spilled_key_gradients_kernel": 0}


@pytest.fixture(scope="module")
def compiled():
    return dict(zip(VARIANTS, instructions_of(_BUILT, list(VARIANTS.values())), strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_multiplies_on_tensor_cores_and_fits(compiled, name):
    found, variant = compiled[name], VARIANTS[name]
    config = backward_config(variant.d, variant.width)
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    # No register leaves in a loop; one that only the epilogue needs may wait outside, once a block and consumer.
    assert found["LDL"] <= 2 and found["STL"] <= 4 if name == "middle" else found["LDL"] == found["STL"] == 0
    # Each consumer: S or dP (or both) before the loop and in it; two gradients or one, those of heads up to 128 in the
    # loop and after it; dQ in it and after it, or in a third group. A gradient of two tiles side by side takes products
    # for both.
    deep, rows, shares = (config.d + config.width) // 16, config.rows // 16, SHARES[config.kernel.__name__]
    gradients = sum(len(list(filter(None, side_by_side(columns)))) for columns in (config.d, config.width))
    times = {"key_stationary_d64_kernel": 2, "key_stationary_d128_kernel": 4, "spilled_key_gradients_kernel": 1}
    scores = (4 if config.keys == 128 else 2) * deep
    assert found["HGMMA"] == scores + times[config.kernel.__name__] * gradients * rows + shares
    # Products of a group wait for each other nowhere: the compiler would otherwise start each by itself. Those of 32
    # columns beside 64 have fewer instructions each.
    assert found["WARPGROUP.ARRIVE"] <= found["HGMMA"] // (3 if config.d == 96 else 4)
    # dS or parts of dQ leave by TMA, and so do gradients of keys.
    assert found["UTMALDG"] > 0
    left = found["UTMASTG"] + found["UTMAREDG"]
    assert left >= 4 if config.keys == 128 else left == 1 + gradients
