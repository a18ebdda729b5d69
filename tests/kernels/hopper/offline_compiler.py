"""Kernels compiled for a Hopper GPU that need not be there, and the instructions that they became.

The same text and the same Triton give the same instructions. They are recorded beside this file under a digest of both,
and a variant is compiled where there is no such record: whoever changes a kernel has it compiled. ``make instructions``
compiles all of them and writes the records anew.
"""

import hashlib
import json
import os
import platform
import subprocess
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.kernels.uninterpreted import uninterpreted

import attenio.kernels

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
    known = {} if "RECORD_INSTRUCTIONS" in os.environ else recorded()
    digests = [digest_of(built, variant) for variant in variants]
    left = [variant for digest, variant in zip(digests, variants, strict=True) if digest not in known]
    if left and known:
        warnings.warn(f"{len(left)} kernels are compiled: the text of kernels changed: make instructions", stacklevel=2)
    said = uninterpreted(_BEFORE + built + _AFTER, left).splitlines() if left else []
    compiled = iter([json.loads(line) for line in said])
    found = {digest: known[digest] if digest in known else next(compiled) for digest in digests}
    if "RECORD_INSTRUCTIONS" in os.environ:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted((recorded() | found).items())]
        RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return [found[digest] for digest in digests]


def disassembled(cubin, folder):
    """The instructions of a cubin."""
    triton = pytest.importorskip("triton")
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    return subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout


def recorded():
    """Counts of instructions by the digest of what was compiled."""
    return json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.is_file() else {}


def digest_of(built, variant):
    """Of everything that makes the instructions: the variant, all text of kernels for GPUs, Triton, the platform."""
    whole = json.dumps([text_of_kernels(), _BEFORE, built, _AFTER, variant, version("triton"), platform.machine()])
    return hashlib.sha256(whole.encode()).hexdigest()[:24]


@cache
def text_of_kernels():
    """Every module that a Hopper kernel is made of; ``hopper/cuda`` is NVRTC's."""
    (home,) = attenio.kernels.__path__
    files = sorted(file for folder in ("hopper", "gpu", "triton") for file in Path(home, folder).rglob("*.py"))
    texts = {file.relative_to(home): file.read_text(encoding="utf-8") for file in files}
    return [[str(name), text] for name, text in texts.items() if name.parts[:2] != ("hopper", "cuda")]
