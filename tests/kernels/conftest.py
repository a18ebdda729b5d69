import pytest

torch = pytest.importorskip("torch", reason="needs the 'torch' extra: pip install 'attenio[torch]'")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
