"""What a time depends on beside the code: the device, its driver, and the libraries that compute on it."""

import platform
import subprocess
import sys

import torch

from attenio.kernels.replay import set_stand_ins
from attenio.measurement.installation import version_of

_PACKAGES = ("triton", "jax", "jaxlib", "numpy")


def expect_gpu() -> None:
    """End a study of GPUs in a line where there is none; else no kernel stands in for a better one from now on."""
    set_stand_ins(False)
    if not torch.cuda.is_available():
        print("this study measures an NVIDIA GPU, and PyTorch sees none; run it where there is one", file=sys.stderr)
        raise SystemExit(2)


def software_of(device: str) -> dict[str, str | None]:
    """Names and versions; None for what is not there."""
    on_gpu = device == "cuda"
    return {
        "device_name": torch.cuda.get_device_name() if on_gpu else "CPU",
        "driver": _driver() if on_gpu else None,
        "cuda": torch.version.cuda if on_gpu else None,
        "cudnn": str(torch.backends.cudnn.version()) if on_gpu else None,
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: version_of(name) for name in _PACKAGES},
    }


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, shell=False).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.splitlines()[0].strip() if said.strip() else None
