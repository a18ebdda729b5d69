"""PTX of a text, by NVRTC."""

import ctypes
from ctypes import byref, c_char_p, c_size_t, c_void_p
from functools import cache

from attenio.kernels.hopper.cuda import compiler

__all__ = ["ptx_of"]


@cache
def ptx_of(text):
    """As the compiler gives it to the assembler."""
    nvrtc, program, size = compiler.library(), c_void_p(), c_size_t()
    given = [each.replace("sm_", "compute_").encode() for each in compiler.OPTIONS]  # no cubin, which takes longest
    options = (c_char_p * len(given))(*given)
    nvrtc.nvrtcCreateProgram(byref(program), text.encode(), b"attenio.cu", 0, None, None)
    try:
        assert nvrtc.nvrtcCompileProgram(program, len(options), options) == 0
        nvrtc.nvrtcGetPTXSize(program, byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, ptx)
        return ptx.value.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))
