"""Variants of the Hopper kernel compile without a GPU: nothing is spilled, and tensor cores multiply."""

import offline_compiler
import pytest
from offline_compiler import instructions_of

from attenio.kernels.hopper.tiles import hopper_tiles, side_by_side

_BUILT = """
from attenio.kernels.hopper.attenio import attenio_kernel as kernel
from attenio.kernels.hopper.tiles import hopper_tiles, side_by_side

TYPES = {"scale_log2": "fp32", "inner": "fp32", **dict.fromkeys(("Largest", "Total", "Sinks"), "*fp32")}
POINTERS = ("Starts", "Entries", "First", "Stop", "Bounds", "Progress")

def built(d, width, which, dtype, masked, below, ranges, pace):
    tiles, (d_a, d_b), (v_a, v_b) = hopper_tiles(d, width)[which], side_by_side(d), side_by_side(width)
    widths = {"q": (d_a, d_b), "k": (d_a, d_b), "v": (v_a, v_b), "o": (v_a, v_b)}
    fixed = dict(CONSUMERS=tiles.consumers, KEY_TILE=tiles.key_tile, STAGES=tiles.stages, D_A=d_a, D_B=d_b, V_A=v_a,
                 V_B=v_b, MASKED=masked, BELOW=below, RANGES=ranges, PINGPONG=tiles.ping_pong, STAGED=tiles.staged,
                 HELD=tiles.held, PACE=pace, LAG=4, REGISTERS=tiles.registers, SINKS=d == 128, CAPPED=d == 256,
                 SHARES_P=tiles.shared)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name[:2] in ("q_", "k_", "v_", "o_"):
            rows, part = 64 if name[0] in "qo" else tiles.key_tile, widths[name[0]]["ab".index(name[2])]
            signature[name] = descriptor([1, 1, rows, part], dtype) if part else "constexpr"
            constants |= {} if part else {(index,): None}
        else:
            signature[name] = "*i32" if name in POINTERS else TYPES.get(name, "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": tiles.registers_at_start})
"""
# d, width, which candidate, type, masked, from below, ranges given as tensors, pace: each once.
VARIANTS = [
    (64, 64, 0, "bf16", False, False, False, 16),
    (128, 128, 1, "fp16", True, False, False, 0),
    (256, 256, 0, "bf16", True, True, True, 0),
    (80, 48, 0, "bf16", True, False, False, 0),
]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=[f"{v[0]}-{v[1]}" for v in VARIANTS])
def test_a_variant_spills_nothing_and_multiplies_on_tensor_cores(compiled, index):
    found, (d, width, which, _, masked, *_) = compiled[index], VARIANTS[index]
    tiles = hopper_tiles(d, width)[which]
    assert found["sm_90a"] and found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == found["CALL.REL"] == 0
    # Scores twice (before the loop and in it), outputs twice (in it and after it), 16 deep each, for every consumer;
    # once more where masked tiles have a loop of their own.
    scores = sum(part // 16 for part in side_by_side(d))
    outputs = sum(tiles.key_tile // 16 for part in side_by_side(width) if part)
    assert found["HGMMA"] == (3 if masked else 2) * tiles.consumers * (scores + outputs)
    assert found["UTMALDG"] > 0 and found["UTMASTG"] > 0


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=[f"{v[0]}-{v[1]}" for v in VARIANTS])
def test_exponentials_of_wide_heads_run_beside_the_product_with_v(compiled, index):
    d, width, which, _, masked, *_ = VARIANTS[index]
    tiles = hopper_tiles(d, width)[which]
    # A thread has so many scores of a key tile, and rescales two rows.
    each = tiles.key_tile // 2 + 2 if d + width > 256 else 0
    loops = tiles.consumers * (2 if masked else 1)
    assert compiled[index]["exponentials beside products"] == [each] * loops


def test_instructions_are_recorded_for_one_text_of_the_kernels_only(monkeypatch):
    compiled = []
    monkeypatch.delenv("RECORD_INSTRUCTIONS", raising=False)
    monkeypatch.setattr(
        offline_compiler, "uninterpreted", lambda _code, left: compiled.extend(left) or "{}\n" * len(left)
    )
    monkeypatch.setattr(offline_compiler, "text_of_kernels", lambda *_folders: [["attenio.py", "another text"]])
    with pytest.warns(UserWarning, match="make instructions"):
        instructions_of(_BUILT, VARIANTS)
    assert compiled == VARIANTS
