"""A run's trace as a file of JSON lines, one event a line."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.files import write_atomically
from attenio.memory.trace import Event


def write_trace(path: Path, events: Iterable[Event]) -> None:
    """Write every event in order; the file appears whole or not at all."""
    write_atomically(path, _lines(events))


def event_line(event: Event) -> dict[str, Any]:
    """One event as plain values; rows and columns are runs [first, stop), and what is empty is left out."""
    line: dict[str, Any] = {"kind": event.kind.value, "operand": event.operand, "level": event.level}
    for name in ("rows", "columns", "inner"):
        numbers: NDArray[np.intp] = getattr(event, name)
        if numbers.size:
            line[name] = _runs(numbers)
    if event.words:
        line["words"] = event.words
    if event.step is not None:
        line["step"] = event.step.value
    if event.cells is not None:
        line["cells"] = np.flatnonzero(event.cells).tolist()
    for name in ("problem", "stream", "along"):
        if getattr(event, name):
            line[name] = getattr(event, name)
    return line


def _lines(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        yield json.dumps(event_line(event), separators=(",", ":")) + "\n"


def _runs(numbers: NDArray[np.intp]) -> list[list[int]]:
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [[int(run[0]), int(run[-1]) + 1] for run in np.split(numbers, breaks)]
