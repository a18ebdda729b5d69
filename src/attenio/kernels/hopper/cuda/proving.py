"""Whether a kernel in CUDA C++ may run on a device: NVRTC is there, and what it made was right."""

import warnings

import torch

from attenio.kernels.hopper.cuda.compiler import CompileError, library
from attenio.kernels.hopper.cuda.driver import DriverError
from attenio.kernels.hopper.proving import Computed, is_known_right, is_right


def can_compile(device: torch.device) -> bool:
    """Whether kernels can be compiled for a device; away from GPUs they are taken to be."""
    return device.type != "cuda" or library() is not None


def is_proven(name: str, dtype: torch.dtype, device: torch.device, both: Computed | None) -> bool:
    """Whether a kernel has given what the definition gives on this device; what cannot be compiled has not."""
    if (name, dtype, device) in _failed:
        return False
    try:
        return is_right(f"CUDA C++, {name}", dtype, device, both, instead="Gluon kernels")
    except (CompileError, DriverError) as problem:
        _failed.add((name, dtype, device))
        warnings.warn(f"CUDA C++, {name}: {problem}; Gluon runs instead", stacklevel=2)
        return False


def is_known(name: str, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether ``is_proven`` has found it right before."""
    return (name, dtype, device) not in _failed and is_known_right(f"CUDA C++, {name}", dtype, device)


_failed: set[tuple[str, torch.dtype, torch.device]] = set()
