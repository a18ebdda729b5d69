"""Attention on the CPU, out of matrix products on tiles: nothing has to be compiled to install it."""

from attenio.kernels.cpu.features import approximate_operations, attend_by_features, promise_for
from attenio.kernels.cpu.forward import attend
from attenio.kernels.cpu.two_pass import Saved, two_pass

__all__ = ["Saved", "approximate_operations", "attend", "attend_by_features", "promise_for", "two_pass"]
