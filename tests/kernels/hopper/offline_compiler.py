"""Kernels compiled for a Hopper GPU that need not be there, and the instructions that they became."""

import json

from tests.kernels.uninterpreted import uninterpreted

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
    print(json.dumps({**counts, "sm_90a": "sm_90a" in ptx, "shared": binary.metadata.shared}))
"""


def instructions_of(built, variants):
    """What each variant became: ``built`` is the text of a function of that name, which compiles one."""
    said = uninterpreted(_BEFORE + built + _AFTER, variants)
    return [json.loads(line) for line in said.splitlines()]
