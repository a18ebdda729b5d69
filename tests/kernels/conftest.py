"""Kernels run in Triton's interpreter here, as the tests' own configuration says before Triton is imported.

Triton has no package for some platforms; there is nothing to collect of its kernels there.
"""

import pytest
import torch

from attenio.kernels.call.choice import set_short_bytes
from attenio.kernels.cpu import beside

try:
    import triton  # noqa: F401
except ImportError:
    collect_ignore_glob = [f"{folder}/test_*.py" for folder in ("gpu", "hopper", "hopper/backward", "triton")]
    collect_ignore = [f"replay/test_{name}.py" for name in ("launcher", "streams", "tape")]
else:
    from tests.kernels.quick_interpreter import make_quick

    make_quick()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def none_short():
    """No call goes to PyTorch's own attention for being short."""
    before = set_short_bytes(0)
    yield
    set_short_bytes(before)


@pytest.fixture
def tiles_only(monkeypatch, none_short):
    """No call goes to PyTorch's own attention."""
    monkeypatch.setattr(beside, "library_first", lambda _sizes: False)
    beside.forget_ways()
    yield
    beside.forget_ways()
