import numpy as np

from attenio.memory import EventKind, Step, Trace

ROWS, COLUMNS = slice(2, 5), slice(0, 4)


def test_totals_are_kept_per_operand_and_direction():
    trace = Trace()
    trace.moved(EventKind.LOAD, "K", 12, (ROWS, COLUMNS))
    trace.moved(EventKind.LOAD, "K", 12, (ROWS, COLUMNS))
    trace.moved(EventKind.STORE, "O", 6, (ROWS, slice(0, 2)))
    assert (trace.loads["K"], trace.stores["O"]) == (24, 6)
    assert (trace.loaded_words, trace.stored_words, trace.moved_words) == (24, 6, 30)
    assert trace.events == []


def test_recorded_events_name_the_elements_they_touched():
    trace = Trace(record=True, level=2)
    trace.problem = "batch 0 head 1 part 0"
    cells = np.eye(3, 4, dtype=bool)
    trace.moved(EventKind.LOAD, "S", 3, (ROWS, COLUMNS), cells=cells)
    trace.computed(Step.SCORES, ROWS, COLUMNS, slice(7, 9))
    load, compute = trace.events
    cells[...] = False
    assert (load.rows.tolist(), load.columns.tolist(), load.words, load.level) == ([2, 3, 4], [0, 1, 2, 3], 3, 2)
    assert load.cells.sum() == 3
    assert (compute.operand, compute.step, compute.inner.tolist()) == ("S", Step.SCORES, [7, 8])
    assert {event.problem for event in trace.events} == {"batch 0 head 1 part 0"}


def test_a_stream_inside_another_belongs_to_it():
    trace = Trace(record=True)
    trace.open_stream()
    trace.open_stream()
    trace.computed(Step.OUTPUT, ROWS, COLUMNS)
    trace.close_stream()
    trace.computed(Step.OUTPUT, ROWS, COLUMNS)
    trace.close_stream()
    trace.computed(Step.OUTPUT, ROWS, COLUMNS)
    trace.open_stream()
    trace.computed(Step.OUTPUT, ROWS, COLUMNS)
    trace.close_stream()
    assert [event.stream for event in trace.events] == [1, 1, 0, 2]


def test_every_step_says_what_it_computes():
    forward, backward = {"S", "P", "O", "max", "sum", "L"}, {"D", "dP", "dS", "dQ", "dK", "dV"}
    features = {"Z", "Y", "dZ", "d"}  # the last stands for each of dQ, dK and dV
    for step in Step:
        assert step.operand in forward | backward | features
        assert f"{step.operand}[" in step.value
