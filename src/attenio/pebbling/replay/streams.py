"""Events in the order in which they happen: streams are played piece by piece."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from attenio.memory import Event, EventKind, Step


def piece_by_piece(events: Iterable[Event]) -> Iterator[Event]:
    """The events, with every stream cut: its first piece goes through all its events before the second one arrives.

    >>> stream = [Event(kind=EventKind.LOAD, operand="K", rows=np.array([4, 7]), stream=1, along="rows"),
    ...           Event(kind=EventKind.COMPUTE, operand="S", columns=np.array([4, 7]), step=Step.SCORES, stream=1)]
    >>> [(event.kind.value, event.rows.tolist(), event.columns.tolist()) for event in piece_by_piece(stream)]
    [('load', [4], []), ('compute', [], [4]), ('load', [7], []), ('compute', [], [7])]
    """
    for stream, together in groupby(events, key=lambda event: event.stream):
        if stream == 0:
            yield from together
            continue
        interleaved = list(together)
        first = interleaved[0]
        by_key = first.along == "rows" or first.operand == "S"
        for number in (first.rows if first.along == "rows" else first.columns).tolist():
            for event in interleaved:
                yield _piece(event, np.array([number]), by_key=by_key)


def _piece(event: Event, number: NDArray[np.intp], *, by_key: bool) -> Event:
    """What an event does with one key, or with one value column."""
    if by_key and event.kind is EventKind.LOAD and event.operand in ("K", "V"):
        return replace(event, rows=number)
    if by_key and event.step in (Step.OUTPUT, Step.RESCALED_OUTPUT):
        return replace(event, inner=number)
    return replace(event, columns=number)
