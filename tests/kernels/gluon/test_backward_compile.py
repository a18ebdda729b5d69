"""The backward kernels of Hopper compile without a GPU: five products on tensor cores, additions by the copy engine."""

import json
import os
import subprocess
import sys

import pytest

from attenio.kernels.gluon.backward import backward_form

# In a process of its own, because tests of other kernels ask Triton to interpret them.
_COMPILES = """
import json, pathlib, subprocess, sys, tempfile
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from attenio.kernels.gluon.backward import backward_form

def box(shape, name, bits, swizzle):
    return f"tensordesc<{name}{shape},{gl.NVMMASharedLayout(swizzle, bits, rank=4)!r}>"

TYPES = {"sums_desc": box([1, 1, 64, 64], "fp32", 32, 0), "Lse": "*fp32", "Delta": "*fp32", "Counters": "*i32",
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
            signature[name] = box(shape, dtype, 16, 128)
        else:
            signature[name] = TYPES.get(name, "i32")
            if signature[name].startswith("*") or name == "padded":
                aligned[(index,)] = [["tt.divisibility", 16]]
    source = GluonASTSource(fn=form.kernel, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "maxnreg": 168})

tools = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
for variant in json.loads(sys.argv[1]):
    made = built(*variant)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        text = subprocess.run([tools / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True).stdout
    names = ("HGMMA", "WARPGROUP.ARRIVE", "LDL", "STL", "UTMALDG", "UTMASTG", "UTMAREDG")
    print(json.dumps({**{name: text.count(name) for name in names}, "shared": made.metadata.shared}))
"""
# Width, type, with a mask, deterministic.
VARIANTS = [(128, "bf16", False, False), (192, "fp16", True, True)]


@pytest.fixture(scope="module")
def compiled():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COMPILES, json.dumps(VARIANTS)],
        capture_output=True, text=True, timeout=600, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


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
