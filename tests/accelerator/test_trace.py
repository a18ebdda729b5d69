"""Traces are what Perfetto and chrome://tracing read."""

import json
from typing import Any

import pytest

from attenio.accelerator import SIMULATED, Engine, simulate, trace_json
from attenio.catalogue import machine_named
from attenio.planning import Dataflow
from attenio.workload import Direction, Workload

# the Trace Event Format: metadata names a thread, a complete event has a begin and a duration
FIELDS = {
    "M": {"ph": str, "pid": int, "tid": int, "name": str, "args": dict},
    "X": {"ph": str, "pid": int, "tid": int, "cat": str, "name": str, "ts": float, "dur": float, "args": dict},
}


def traced(dataflow: Dataflow, *, most_spans: int = 10**6) -> tuple[dict[str, Any], float]:
    direction = Direction.BACKWARD if dataflow is Dataflow.KEY_STATIONARY else Direction.FORWARD
    done = simulate(Workload(n=40, d=16, direction=direction), machine_named("attenio-64k"), dataflow=dataflow)
    return json.loads(trace_json(done.program, most_spans=most_spans)), float(done.cycles)


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


def test_a_trace_cut_short_says_how_many_steps_it_left_out() -> None:
    trace, _ = traced(Dataflow.ATTENIO, most_spans=10)
    steps = sum(event.get("cat") == "step" for event in trace["traceEvents"])
    assert steps + trace["otherData"]["steps_left_out"] == trace["otherData"]["steps"]
