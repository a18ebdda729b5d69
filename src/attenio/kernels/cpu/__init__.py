"""Attention on the CPU, out of matrix products on tiles: nothing has to be compiled to install it."""

from attenio.kernels.cpu.forward import attend
from attenio.kernels.cpu.two_pass import Saved, two_pass

__all__ = ["Saved", "attend", "gradients", "two_pass"]

# Every backend has ``attend`` and ``gradients``; this one's makes two passes.
gradients = two_pass
