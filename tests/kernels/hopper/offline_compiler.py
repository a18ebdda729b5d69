"""Kernels compiled for a Hopper GPU that need not be there, and the instructions that they became."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.kernels.records import maker, recorded, text_of_kernels
from tests.kernels.uninterpreted import uninterpreted

RECORDS = Path(__file__).with_name("instructions.json")

_BEFORE = r"""
import json, pathlib, re, subprocess, tempfile
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

NAMES = ("HGMMA", "HMMA", "LDSM", "LDL", "STL", "UTMALDG", "UTMASTG", "UTMAREDG", "ATOM", "CALL.REL",
         "WARPGROUP.ARRIVE")

def descriptor(shape, dtype, layout=None):
    layout = layout or gl.NVMMASharedLayout.get_default_for(shape, {"bf16": gl.bfloat16, "fp16": gl.float16}[dtype])
    return f"tensordesc<{dtype}{shape},{layout!r}>"

def compiled(kernel, signature, constants, options, **more):
    source = GluonASTSource(fn=kernel, signature=signature, constexprs=constants, **more)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)

def overwritten_barriers(ptx):
    # Barriers whose memory is given to numbers that are handed over to other warpgroups.
    at = dict(re.findall(r"add\.s32 \t(%r\d+), %r\d+, (\d+);", ptx))
    inits = re.findall(r"mbarrier\.init\.shared::cta\.b64 \[(%r\d+)\]", ptx)
    barriers = {int(at[place]) for place in inits if place in at}
    stored = re.findall(r"st\.shared(?:\.v(\d))?\.b(\d+) \t\[global_smem\+(\d+)\]", ptx)
    taken = [range(int(first), int(first) + int(count or 1) * int(bits) // 8) for count, bits, first in stored]
    return sum(any(barrier < span.stop and span.start < barrier + 8 for span in taken) for barrier in barriers)

def exponentials_beside_products(text):
    # Of every wait that leaves products under way: exponentials until the next wait.
    waits = re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x\d+)", text)
    return [after.count("MUFU.EX2") for left, after in zip(waits[1::2], waits[2::2]) if left != "0x0"]
"""
_AFTER = """
tools = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
for variant in argument:
    binary = built(*variant)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        text = subprocess.run([tools / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True).stdout
    counts = {name: text.count(name) for name in NAMES}
    ptx = binary.asm["ptx"]
    counts["overwritten barriers"] = overwritten_barriers(ptx)
    counts["exponentials beside products"] = exponentials_beside_products(text)
    print(json.dumps({**counts, "sm_90a": "sm_90a" in ptx, "shared": binary.metadata.shared}))
"""


def instructions_of(built, variants):
    """What each variant became: ``built`` is the text of a function of that name, which compiles one."""

    def compiled(left):
        said = uninterpreted(_BEFORE + built + _AFTER, [variants[index] for index in left])
        return [json.loads(line) for line in said.splitlines()]

    texts = text_of_kernels("hopper", "gpu", "triton")
    return recorded(RECORDS, [[texts, _BEFORE, built, _AFTER, each, *maker()] for each in variants], compiled)


def cuda_instructions(text, folder):
    """How often each instruction of ``_NAMES`` stands in what NVRTC makes of a text."""
    from attenio.kernels.hopper.cuda import compiler

    if compiler.library() is None:
        pytest.skip("NVRTC is not installed (package nvidia-cuda-nvrtc)")
    made_by = [text, compiler.OPTIONS, compiler.version(), _NAMES]
    return recorded(RECORDS, [made_by], lambda _left: [_counted(compiler.compiled(text), folder)])[0]


# Loads and stores of registers that were spilled, and products by their sizes.
_NAMES = r"\b(LDL|STL|HGMMA\.\d+x\d+x\d+)\b"


def _counted(cubin, folder):
    triton = pytest.importorskip("triton")
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    text = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout
    return Counter(re.findall(_NAMES, text))
