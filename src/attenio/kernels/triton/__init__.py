"""Attention on NVIDIA GPUs in portable Triton; every kernel also runs in Triton's interpreter on a CPU."""

from attenio.kernels.triton.backward import two_pass
from attenio.kernels.triton.forward import attend
from attenio.kernels.triton.traffic import grids

__all__ = ["attend", "gradients", "grids", "two_pass"]

# Every backend has ``attend`` and ``gradients``; this one's makes two passes.
gradients = two_pass
