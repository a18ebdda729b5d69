"""Laws of reading Nsight Compute's counters, from a log of an H200."""

from pathlib import Path

import pytest

from attenio.errors import InvalidInput
from attenio.measurement import ncu

LOG = (Path(__file__).parent / "ncu.csv").read_text(encoding="utf-8")


def test_every_launch_is_told_with_its_bytes_and_its_time() -> None:
    first, second = ncu.counters_in(LOG)
    assert (first.range, second.range) == ("attenio-call-0", ncu.range_of_call(1))
    assert (first.kernel, first.read_bytes, first.written_bytes, first.nanoseconds) == (
        "attenio_kernel", 852_736, 996_352, 18_528,
    )  # fmt: skip
    assert second.kernel.startswith("void at::elementwise_kernel<128, 4, ")
    assert second.moved_bytes == 284_672 + 1_792


def test_a_log_without_launches_has_none() -> None:
    assert ncu.counters_in("==WARNING== No kernels were profiled.\n") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", "may not read the GPU's counters"),
        (LOG.replace("dram__bytes_write.sum", "something_else"), "left some counters out"),
    ],
)
def test_what_cannot_be_counted_is_one_line(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ncu.counters_in(text)


def test_without_ncu_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(ncu, "_OTHER_PLACES", ())
    with pytest.raises(InvalidInput, match="needs Nsight Compute"):
        ncu.ncu_command(["python"], Path("log"))


def test_the_child_comes_last_on_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = ncu.ncu_command(["python", "-m", "there"], tmp_path / "log")
    assert command[0] == str(tool) and command[-3:] == ["python", "-m", "there"]
    assert command[command.index("--cache-control") + 1] == "none"
