"""Laws of profiles: a stand-in for Nsight Compute hands out a recorded log."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from attenio.errors import InvalidInput
from attenio.measurement.profile import profile, profiles
from attenio.planning.shared_cache import Grid, traffic
from attenio.workload import Workload

WORKLOAD = Workload(n=65536, d=128, dtype="bf16")
GRID = Grid(
    units=1, rows=65536, passing=65536, tile=128, resident=132,
    read_bytes=256, written_bytes=264, passing_bytes=512, turns=True,
)  # fmt: skip
_STAND_IN = """#!{python}
import json, sys
log = open({log!r}).read()
open(sys.argv[sys.argv.index("--log-file") + 1], "w").write(log)
print("chatter")
for number, each in enumerate(json.loads(sys.argv[-1])):
    told = {{"cache_bytes": 60 * 2**20, "grids": {grids!r} if each["contender"] == "attenio" else None}}
    if each["contender"] == "sdpa flash":
        told = {{"refused": "No available kernel"}}
    print("attenio-call:", json.dumps({{"number": number, **told}}))
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "ncu"
    log = Path(__file__).parent / "ncu.csv"
    tool.write_text(_STAND_IN.format(python=sys.executable, log=str(log), grids=[asdict(GRID)]))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tool


def test_counted_bytes_stand_beside_predicted_ones_and_the_bound(ncu: Path) -> None:
    found = profile(WORKLOAD)
    ours, cudnn, flash = found.contenders
    assert (ours.moved_bytes, cudnn.moved_bytes) == (852_736 + 996_352, 284_672 + 1_792)
    assert ours.predicted == traffic(GRID, cache_bytes=60 * 2**20)
    assert cudnn.predicted is None
    assert flash.moved_bytes is None and flash.refused == "No available kernel"
    assert found.bound_bytes >= found.compulsory_bytes == 4 * 65536 * 128 * 2
    assert json.loads(json.dumps(found.to_json()))["contenders"][1]["launches"][0]["moved_bytes"] == 286_464


def test_a_call_that_was_told_and_never_counted_is_no_zero(ncu: Path) -> None:
    first, second = profiles([WORKLOAD, WORKLOAD], names=["attenio", "sdpa cudnn"])
    assert [each.moved_bytes is None for each in (*first.contenders, *second.contenders)] == [False, False, True, True]
    assert second.contenders[0].refused == "no kernel was counted"


def test_a_step_and_a_profile_of_nothing_are_refused(ncu: Path) -> None:
    with pytest.raises(InvalidInput, match="one pass at a time"):
        profile(Workload(n=128, d=64, direction="training"))
    with pytest.raises(InvalidInput, match="nothing could be counted: No available kernel"):
        profile(WORKLOAD, names=["sdpa flash"])
    ncu.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no device')\n")
    with pytest.raises(InvalidInput, match="nothing could be counted: no device"):
        profile(WORKLOAD)
