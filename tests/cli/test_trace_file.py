"""Laws of trace files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cli.trace_file import event_line, write_trace
from attenio.errors import InvalidInput
from attenio.memory.trace import Event, EventKind, Step

laws = settings(deadline=None, derandomize=True, max_examples=20)


@laws
@given(st.lists(st.integers(0, 30), min_size=1, unique=True).map(sorted))
def test_runs_of_rows_stand_for_exactly_those_rows(rows: list[int]) -> None:
    line = event_line(Event(kind=EventKind.LOAD, operand="K", rows=np.array(rows), columns=np.arange(4), words=4))
    assert [row for first, stop in line["rows"] for row in range(first, stop)] == rows
    assert line["columns"] == [[0, 4]]


def test_an_event_says_what_it_has_and_no_more() -> None:
    reserve = Event(kind=EventKind.RESERVE, operand="S", words=8)
    assert event_line(reserve) == {"kind": "reserve", "operand": "S", "level": 1, "words": 8}
    cells = np.array([[True, False], [False, True]])
    rows = np.arange(2)
    load = Event(
        kind=EventKind.LOAD, operand="S", rows=rows, columns=rows, words=2, cells=cells, stream=3, along="rows"
    )
    assert event_line(load)["cells"] == [0, 3]
    assert event_line(load)["stream"] == 3
    compute = Event(kind=EventKind.COMPUTE, operand="S", rows=rows, columns=rows, inner=rows, step=Step.SCORES)
    assert event_line(compute)["step"] == Step.SCORES.value


def test_a_trace_is_one_event_a_line(tmp_path: Path) -> None:
    events = [Event(kind=EventKind.RESERVE, operand="S", words=n) for n in (1, 2, 3)]
    write_trace(tmp_path / "trace.jsonl", events)
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert [json.loads(line)["words"] for line in lines] == [1, 2, 3]
    with pytest.raises(InvalidInput, match="does not exist"):
        write_trace(tmp_path / "gone" / "trace.jsonl", events)
