"""Attention on NVIDIA GPUs in portable Triton; every kernel also runs in Triton's interpreter on a CPU."""

from attenio.kernels.triton.backward import gradients, run_backward
from attenio.kernels.triton.choice import choose, choose_backward
from attenio.kernels.triton.forward import attend, run
from attenio.kernels.triton.traffic import grids

__all__ = ["attend", "choose", "choose_backward", "gradients", "grids", "run", "run_backward"]
