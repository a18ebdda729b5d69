import numpy as np

from attenio.memory import Event, EventKind, Step
from attenio.pebbling.replay.replay import piece_by_piece


def event(kind, operand, rows, columns, **more):
    return Event(kind=kind, operand=operand, rows=np.array(rows), columns=np.array(columns), **more)


def shown(events):
    return [(e.kind.value, e.operand, e.rows.tolist(), e.columns.tolist(), e.inner.tolist()) for e in events]


def test_keys_go_through_loads_scores_stores_and_outputs_one_by_one():
    stream = [
        event(EventKind.LOAD, "S", [3], [1, 4], stream=2, along="columns"),
        event(EventKind.LOAD, "V", [1, 4], [0, 1], stream=2, along="rows"),
        event(EventKind.COMPUTE, "P", [3], [1, 4], stream=2, step=Step.PROBABILITIES),
        event(EventKind.COMPUTE, "O", [3], [0, 1], stream=2, step=Step.OUTPUT, inner=np.array([1, 4])),
        event(EventKind.STORE, "P", [3], [1, 4], stream=2),
    ]
    assert shown(piece_by_piece(stream)) == [
        piece
        for key in (1, 4)
        for piece in (
            ("load", "S", [3], [key], []),
            ("load", "V", [key], [0, 1], []),
            ("compute", "P", [3], [key], []),
            ("compute", "O", [3], [0, 1], [key]),
            ("store", "P", [3], [key], []),
        )
    ]


def test_value_columns_go_through_outputs_one_by_one():
    stream = [
        event(EventKind.LOAD, "V", [5], [0, 1], stream=1, along="columns"),
        event(EventKind.COMPUTE, "O", [2, 3], [0, 1], stream=1, step=Step.OUTPUT, inner=np.array([5])),
    ]
    assert shown(piece_by_piece(stream)) == [
        ("load", "V", [5], [0], []),
        ("compute", "O", [2, 3], [0], [5]),
        ("load", "V", [5], [1], []),
        ("compute", "O", [2, 3], [1], [5]),
    ]


def test_events_outside_streams_and_different_streams_stay_in_order():
    plain = event(EventKind.STORE, "O", [0], [0])
    streams = [event(EventKind.LOAD, "K", [0, 1], [0], stream=number, along="rows") for number in (1, 2)]
    assert shown(piece_by_piece([plain, *streams, plain])) == [
        ("store", "O", [0], [0], []),
        *[("load", "K", [key], [0], []) for _ in (1, 2) for key in (0, 1)],
        ("store", "O", [0], [0], []),
    ]
