"""Nsight Compute: the command that counts a process's DRAM bytes, and what its CSV says.

Only counters that one pass collects are requested, so that no kernel is replayed, and caches are left alone: kernels of
one call find what the ones before them left. Calls are told apart by the NVTX ranges around them.
"""

import csv
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attenio.errors import InvalidInput

READ, WRITTEN, TIME = "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"
_FIELDS = {READ: "read_bytes", WRITTEN: "written_bytes", TIME: "nanoseconds"}
# What ranges are called that calls are told apart by.
_NAMED = re.compile(r"attenio-call-\d+")
_OTHER_PLACES = ("/usr/local/cuda/bin/ncu",)


@dataclass(frozen=True, kw_only=True)
class Counters:
    """One launch of a kernel, and the range it was in: the name that the process gave to that part of its run."""

    kernel: str
    range: str
    read_bytes: int
    written_bytes: int
    nanoseconds: int

    @property
    def moved_bytes(self) -> int:
        """Both ways."""
        return self.read_bytes + self.written_bytes


def range_of_call(number: int) -> str:
    """What the range of a call is called."""
    return f"attenio-call-{number}"


def ncu_command(child: Sequence[str], log: Path) -> list[str]:
    """Run ``child`` under Nsight Compute from its cudaProfilerStart on; counters go into ``log``."""
    program = shutil.which("ncu") or next((place for place in _OTHER_PLACES if Path(place).is_file()), None)
    if program is None:
        raise InvalidInput("profile needs Nsight Compute, and there is no ncu here; install it, or add it to PATH")
    return [
        program, "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off", "--nvtx",
        "--csv", "--print-units", "base", "--log-file", str(log), "--metrics", ",".join(_FIELDS), *child,
    ]  # fmt: skip


def counters_in(text: str) -> tuple[Counters, ...]:
    """Every launch in a log, in order."""
    if "ERR_NVGPUCTRPERM" in text:
        raise InvalidInput("this user may not read the GPU's counters; ask the administrator, or run as root")
    by_id: dict[str, dict[str, str | int]] = {}
    for row in _rows(text):
        launch = by_id.setdefault(row["ID"], {"kernel": row["Kernel Name"], "range": _range(row)})
        if row["Metric Name"] in _FIELDS:
            launch[_FIELDS[row["Metric Name"]]] = round(float(row["Metric Value"].replace(",", "")))
    try:
        return tuple(Counters(**launch) for launch in by_id.values())  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInput("Nsight Compute left some counters out; check that its version knows this GPU") from None


def _range(row: dict[str, str]) -> str:
    """The name of the NVTX range; it is somewhere in one of the columns that describe ranges."""
    ranges = [match[0] for name, cell in row.items() if "Range" in name and (match := _NAMED.search(cell))]
    return ranges[0] if ranges else ""


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The lines of the CSV between what else is printed."""
    header: list[str] | None = None
    for cells in csv.reader(line for line in text.splitlines() if line.startswith('"')):
        if cells[0] == "ID":
            header = cells
        elif header is not None and len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))
