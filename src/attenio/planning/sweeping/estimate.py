"""What a long sweep will take, told once its first points are planned: time, memory, and the size of its file."""

from pathlib import Path

from attenio.planning.sweeping.files import format_of
from attenio.planning.sweeping.result import PlannedPoints
from attenio.quantities import show_bytes, show_minutes

# Sweeps that take longer are announced.
LONG_SECONDS = 30.0
# Bytes of a point in a file, for each of its columns: the mean of 73,216 points, dense and causal.
_FILE_BYTES = {"parquet": 1, "csv": 4, "json": 20, "jsonl": 20}
# Columns of what is asked, beside those of the plan.
_ASKED_COLUMNS = 16


def estimate(points: int, left: int, seconds_per_point: float, planned: PlannedPoints, out: Path | None) -> str | None:
    """A line about ``points`` of which some are ``left``, by the rate so far; None where they take no long time."""
    seconds = left * seconds_per_point
    if seconds < LONG_SECONDS:
        return None
    held = sum(values.nbytes for values in (*planned.numbers.values(), planned.reason)) / len(planned)
    told = f"planning {points:,} points: about {show_minutes(seconds)} more, {show_bytes(points * held)} of memory"
    if out is None:
        return f"{told}; Ctrl-C stops it, nothing is kept without an output file"
    size = points * (len(planned.numbers) + _ASKED_COLUMNS) * _FILE_BYTES[format_of(out)]
    return f"{told} and {show_bytes(size)} in {out}; Ctrl-C stops it, the same sweep goes on from there"
