import pytest
import torch

from attenio.kernels.cpu import beside


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def tiles_only(monkeypatch):
    """No call goes to PyTorch's own attention."""
    monkeypatch.setattr(beside, "library_first", lambda _sizes: False)
    monkeypatch.setattr(beside, "_ways", {})
