"""Attention on the CPU, out of matrix products on tiles: nothing has to be compiled to install it."""

from attenio.kernels.call.results import Saved
from attenio.kernels.cpu.choice import choose, choose_backward
from attenio.kernels.cpu.forward import attend, run
from attenio.kernels.cpu.two_pass import gradients, run_backward

__all__ = ["Saved", "attend", "choose", "choose_backward", "gradients", "run", "run_backward", "two_pass"]

# The dataflow of its gradients.
two_pass = gradients
