"""Laws of ``attenio profile``."""

import subprocess
import sys
from typing import Any

import pytest

from attenio.bounds.attention import bounds_for, largest_ordinary
from attenio.errors import how_to_install
from attenio.measurement.ncu import Counters
from attenio.measurement.profile import Profile, Profiled
from attenio.planning.shared_cache import Traffic
from attenio.workload import Workload

ASKED = ("profile", "--n", "64K", "--d", 128, "--dtype", "bf16")


def counted(workload: Workload, **_rest: object) -> Profile:
    """What two launches of ours and a refusing peer would give."""
    launch = Counters(
        kernel="attenio_kernel", range="", read_bytes=60_000_000, written_bytes=5_000_000, nanoseconds=4_000_000
    )
    ours = Profiled(name="attenio", launches=(launch, launch), predicted=Traffic(120_000_000, 12_000_000))
    peer = Profiled(name="sdpa flash", refused="No available kernel")
    bound = largest_ordinary(bounds_for(workload, 30 * 2**20))
    return Profile(workload=workload, cache_bytes=60 * 2**20, bound=bound, contenders=(ours, peer))


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("attenio.measurement.profile.profile", counted)
    monkeypatch.setattr("attenio.measurement.software.software_of", lambda _device: {"device_name": "a GPU"})


@pytest.mark.usefixtures("on_a_gpu")
def test_the_table_has_counted_predicted_and_least_bytes_and_every_kernel(attenio: Any) -> None:
    said = attenio(*ASKED)
    assert said.status == 0, said.err
    for word in ("130", "132", "2 x attenio_kernel", "No available kernel", "60 MB of L2", "67.11 MB"):
        assert word in said.out


@pytest.mark.usefixtures("on_a_gpu")
def test_json_has_every_launch_and_what_made_it(attenio: Any) -> None:
    found = attenio(*ASKED, "--json").json
    ours = found["contenders"][0]
    assert ours["moved_bytes"] == 130_000_000 and ours["predicted"]["moved_bytes"] == 132_000_000
    assert [each["kernel"] for each in ours["launches"]] == ["attenio_kernel"] * 2
    assert found["device_name"] == "a GPU" and {"version", "commit", "date"} <= set(found["provenance"])


@pytest.mark.parametrize(("options", "said"), [((), "sees no NVIDIA GPU"), (("--machine", "h200"), "the GPU at hand")])
def test_where_nothing_can_be_counted_one_line_says_why(
    attenio: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert said in attenio(*ASKED, *options).mistake


def test_without_torch_one_line_names_the_extra() -> None:
    code = "import sys; sys.modules['torch'] = None; from attenio.cli import main; sys.exit(main(['profile']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"attenio: profile needs the 'torch' extra: {how_to_install('torch')}\n"
