"""The cap on scores s, c tanh(s / c): kernels take its tanh, and the cap as their scale."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def tanh(x, FAST: gl.constexpr):
    """By the SM's own instruction, which is right to 11 bits and so to less than what bf16 rounds off, or exactly."""
    if FAST:
        return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)
    else:
        return 1.0 - 2.0 / (1.0 + gl.exp2(x * 2.8853900817779268))
