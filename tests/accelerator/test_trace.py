"""Traces are what Perfetto and chrome://tracing read."""

import json
from typing import Any

import pytest

from attenio.accelerator import SIMULATED, Engine, simulate, trace_json, trace_text
from attenio.catalogue import machine_named
from attenio.planning import Dataflow
from attenio.workload import Direction, Workload

# the Trace Event Format: metadata names a thread, a complete event has a begin and a duration
FIELDS = {
    "M": {"ph": str, "pid": int, "tid": int, "name": str, "args": dict},
    "X": {"ph": str, "pid": int, "tid": int, "cat": str, "name": str, "ts": float, "dur": float, "args": dict},
    "C": {"ph": str, "pid": int, "tid": int, "name": str, "ts": float, "args": dict},
}


def traced(dataflow: Dataflow, *, most_steps: int | None = None) -> tuple[dict[str, Any], float]:
    direction = Direction.BACKWARD if dataflow is Dataflow.KEY_STATIONARY else Direction.FORWARD
    done = simulate(Workload(n=40, d=16, direction=direction), machine_named("attenio-64k"), dataflow=dataflow)
    return json.loads(trace_json(done.program, most_steps=most_steps)), float(done.cycles)


@pytest.mark.parametrize("dataflow", SIMULATED)
def test_every_event_has_the_fields_of_the_format(dataflow: Dataflow) -> None:
    trace, _ = traced(dataflow)
    for event in trace["traceEvents"]:
        assert {name: type(value) for name, value in event.items()} == FIELDS[event["ph"]]
    named = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert list(named.values()) == [engine.value for engine in Engine]


@pytest.mark.parametrize("dataflow", SIMULATED)
def test_events_of_a_track_follow_each_other_to_the_end(dataflow: Dataflow) -> None:
    trace, cycles = traced(dataflow)
    at = dict.fromkeys(range(len(Engine)), 0.0)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            assert event["ts"] == pytest.approx(at[event["tid"]])
            at[event["tid"]] = event["ts"] + event["dur"]
    assert list(at.values()) == pytest.approx([cycles] * len(Engine))
    assert trace["otherData"]["steps_left_out"] == 0


@pytest.mark.parametrize("dataflow", SIMULATED)
def test_counters_end_at_the_words_moved_and_their_rates_add_up_to_them(dataflow: Dataflow) -> None:
    direction = Direction.BACKWARD if dataflow is Dataflow.KEY_STATIONARY else Direction.FORWARD
    done = simulate(Workload(n=40, d=16, direction=direction), machine_named("attenio-64k"), dataflow=dataflow)
    events = json.loads(trace_json(done.program))["traceEvents"]
    counted: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            counted.setdefault(event["name"], []).append((event["ts"], event["args"][event["name"]]))
    assert counted["words moved"][-1][1] == done.moved_words
    for name, total in (("words per cycle", done.moved_words), ("products per cycle", done.program.work.macs)):
        ends = [at for at, _ in counted[name][1:]] + [float(done.cycles)]
        area = sum(rate * (end - at) for (at, rate), end in zip(counted[name], ends, strict=True))
        assert area == pytest.approx(total)


def test_a_trace_cut_short_says_how_many_steps_it_left_out() -> None:
    trace, _ = traced(Dataflow.ATTENIO, most_steps=10)
    steps = sum(event.get("cat") == "step" for event in trace["traceEvents"])
    assert steps == 10
    assert steps + trace["otherData"]["steps_left_out"] == trace["otherData"]["steps"]


def test_the_documented_trace_has_every_step_to_the_last_cycle() -> None:
    done = simulate(Workload(n=4096, d=64), machine_named("attenio-512k"))
    events = [event for event in json.loads(trace_json(done.program))["traceEvents"] if event["ph"] == "X"]
    assert sum(event["cat"] == "step" for event in events) == done.program.steps > 100_000
    assert max(event["ts"] + event["dur"] for event in events) == float(done.cycles)


def test_a_trace_comes_in_pieces_that_do_not_grow_with_it() -> None:
    done = simulate(Workload(n=1024, d=64), machine_named("attenio-512k"))
    told: list[tuple[int, int]] = []
    pieces = list(trace_text(done.program, progress=lambda shown, most: told.append((shown, most))))
    assert "".join(pieces) == trace_json(done.program)
    assert max(map(len, pieces)) < 300_000 < sum(map(len, pieces))
    assert told[-1] == (done.program.steps, done.program.steps)
