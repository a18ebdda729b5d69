"""Kernels on a Hopper GPU, run by themselves: pytest tests/on_gpu.

Other tests have Triton interpret its kernels, which is said once for a process; where it was said, or where there is no
such GPU, nothing is collected here.
"""

import os

import torch

_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
collect_ignore_glob = [] if _HOPPER and "TRITON_INTERPRET" not in os.environ else ["test_*.py"]
