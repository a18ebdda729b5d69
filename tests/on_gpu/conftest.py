"""Kernels on a Hopper GPU, run by themselves: pytest tests/on_gpu, or ``make gpu`` for eight processes at once.

Other tests have Triton interpret its kernels, which is said once for a process; where it was said, or where there is no
such GPU, nothing is collected here. Compiling is most of the time, so the tests can be dealt out: ``--share 3/8`` runs
the third of eight shares, each in a process of its own.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attenio.kernels.replay import repeating, set_stand_ins

_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
collect_ignore_glob = [] if _HOPPER and "TRITON_INTERPRET" not in os.environ else ["test_*.py"]
if _HOPPER:
    # What an earlier run found out about kernels may not be true of these: tiles are measured and kernels proven anew.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="attenio-")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="run the Kth of N shares of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    given = config.getoption("--share", None)
    mine, shares = (int(part) for part in (given or "1/1").split("/"))
    families: dict[str, int] = {}
    for item in items:
        families.setdefault(_family(item), len(families))
    items[:] = [item for item in items if families[_family(item)] % shares == mine - 1]
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("error:.* is off by .* run instead"))


def _family(item: pytest.Item) -> str:
    """Tests that differ in their ``shape`` or ``case`` only run the same compiled kernels, and stay together."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    told_apart = sorted((name, str(value)) for name, value in parameters.items() if name not in ("shape", "case"))
    return f"{item.path} {getattr(item, 'originalname', item.name)} {told_apart}"


@pytest.fixture(autouse=True)
def anew() -> None:
    """The same numbers whichever tests run, no call that takes the way of a call in another test, or a stand-in."""
    torch.manual_seed(0)
    set_stand_ins(False)
    repeating.forget()


@pytest.fixture
def much_memory() -> Iterator[None]:
    """For tests that take a good part of a GPU's memory: one of all processes has it at a time, and gives it back."""
    with (Path(tempfile.gettempdir()) / "attenio-gpu-memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        torch.cuda.empty_cache()
