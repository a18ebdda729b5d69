"""What a run did: words moved per operand and direction, and on request every single event."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from attenio.memory.indices import Indices, as_array


class EventKind(Enum):
    """What can happen to a fast memory."""

    LOAD = "load"
    STORE = "store"
    RESERVE = "reserve"
    RELEASE = "release"
    COMPUTE = "compute"


class Step(Enum):
    """What one compute event does; i are its rows, j or c its columns, and sums run over its ``inner`` indices."""

    SCORES = "S[i,j] += scale Q[i,t] K[j,t]"
    MAXIMUM = "max[i] = max(max[i], S[i,j])"
    STATISTICS = "max[i], sum[i] of S[i,j]"
    SOFTMAX = "max[i], sum[i], rescale[i], P[i,j] = exp(S[i,j] - max[i])"
    EXPONENTIAL = "P[i,j] = exp(S[i,j] - max[i])"
    PROBABILITIES = "P[i,j] = exp(S[i,j] - max[i]) / sum[i]"
    SUM = "sum[i] += P[i,j]"
    OUTPUT = "O[i,c] += P[i,j] V[j,c]"
    RESCALED_OUTPUT = "O[i,c] = rescale[i] O[i,c] + P[i,j] V[j,c]"
    SOFTMAX_BY_ROW = "row by row: max[i], sum[i], P[i,j] = exp(S[i,j] - max[i]), O[i,c] scaled down"
    ROW_BY_ROW = "row by row and key by key: S[i,j], max[i], sum[i], rescale[i], P[i,j], O[i,c]"
    MERGE = "O[i,c], max[i], sum[i] join those of another split"
    NORMALISE = "O[i,c] /= sum[i]"
    LOG_SUM_EXP = "L[i] = max[i] + log(sum[i])"
    DELTA = "D[i] += dO[i,t] O[i,t]"
    SCORE_DELTA = "D[i] += P[i,t] dP[i,t]"
    SAVED_PROBABILITIES = "P[i,j] = exp(S[i,j] - L[i])"
    VALUE_SCORES = "dP[i,j] += dO[i,t] V[j,t]"
    SCORE_GRADIENT = "dS[i,j] = P[i,j] (dP[i,j] - D[i])"
    VALUE_GRADIENT = "dV[i,c] += P[t,i] dO[t,c]"
    KEY_GRADIENT = "dK[i,c] += scale dS[t,i] Q[t,c]"
    QUERY_GRADIENT = "dQ[i,c] += scale dS[i,t] K[t,c]"
    FEATURE_STATE = "Z[i,c] += features(K[t])[i] [1, V[t]][c]"
    FEATURE_OUTPUT = "Y[i,c] += features(Q[i]) Z[:,c]"
    FEATURE_STATE_GRADIENT = "dZ[i,c] += features(Q[t])[i] dY[t,c]"
    FEATURE_GRADIENT = "d[i,c] of dQ, dK or dV, from the features of row i and a state"

    @property
    def operand(self) -> str:
        """The matrix whose elements the step computes (row statistics come with it)."""
        return _RESULTS[self]


_RESULTS = {
    Step.OUTPUT: "O",
    Step.RESCALED_OUTPUT: "O",
    Step.ROW_BY_ROW: "O",
    Step.SOFTMAX_BY_ROW: "P",
    Step.MERGE: "O",
    Step.NORMALISE: "O",
    Step.LOG_SUM_EXP: "L",
    Step.SCORES: "S",
    Step.MAXIMUM: "max",
    Step.STATISTICS: "max",
    Step.SUM: "sum",
    Step.SOFTMAX: "P",
    Step.EXPONENTIAL: "P",
    Step.PROBABILITIES: "P",
    Step.DELTA: "D",
    Step.SCORE_DELTA: "D",
    Step.SAVED_PROBABILITIES: "P",
    Step.VALUE_SCORES: "dP",
    Step.SCORE_GRADIENT: "dS",
    Step.VALUE_GRADIENT: "dV",
    Step.KEY_GRADIENT: "dK",
    Step.QUERY_GRADIENT: "dQ",
    Step.FEATURE_STATE: "Z",
    Step.FEATURE_OUTPUT: "Y",
    Step.FEATURE_STATE_GRADIENT: "dZ",
    Step.FEATURE_GRADIENT: "d",
}

Numbers = NDArray[np.intp]
_NONE: Numbers = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """One thing that happened, with the numbers of the elements it touched, as slow memory numbers them.

    ``cells`` marks which of rows x columns moved when not all did. Events with the same ``stream`` above zero happen
    piece by piece and interleaved: each load of a stream says along which axis it is cut (``along``), and the first
    piece goes through all events of the stream before the second one arrives. A piece along the rows of K or V, or
    along the columns of S, is a key: a column of S or P, an inner index of O. One along the columns of V is one of O.
    """

    kind: EventKind
    operand: str
    rows: Numbers = field(default_factory=lambda: _NONE)
    columns: Numbers = field(default_factory=lambda: _NONE)
    words: int = 0
    inner: Numbers = field(default_factory=lambda: _NONE)
    cells: NDArray[np.bool_] | None = None
    step: Step | None = None
    problem: str = ""
    level: int = 1
    stream: int = 0
    along: str = ""


class Trace:
    """Words moved across one boundary, always; and with ``record`` the list of events.

    Traces of several levels share one list of ``events``, so that it stays in order.
    """

    def __init__(self, *, record: bool = False, level: int = 1, events: list[Event] | None = None) -> None:
        self.record = record
        self.level = level
        self.loads: Counter[str] = Counter()
        self.stores: Counter[str] = Counter()
        self.events: list[Event] = [] if events is None else events
        self.problem = ""
        self.stream = 0
        self._streams = 0
        self._nested = 0

    @property
    def loaded_words(self) -> int:
        """Words loaded, all operands together."""
        return sum(self.loads.values())

    @property
    def stored_words(self) -> int:
        """Words stored, all operands together."""
        return sum(self.stores.values())

    @property
    def moved_words(self) -> int:
        """Words moved in both directions."""
        return self.loaded_words + self.stored_words

    def open_stream(self) -> None:
        """From here events are interleaved piece by piece; a stream opened inside another is part of it."""
        if self._nested == 0:
            self._streams += 1
            self.stream = self._streams
        self._nested += 1

    def close_stream(self) -> None:
        """Events happen one after the other again, once the outermost stream is closed."""
        self._nested -= 1
        if self._nested == 0:
            self.stream = 0

    def moved(
        self,
        kind: EventKind,
        operand: str,
        words: int,
        where: tuple[Indices, Indices],
        *,
        cells: NDArray[np.bool_] | None = None,
        along: str = "",
    ) -> None:
        """Count a load or a store of the rows and columns ``where``."""
        totals = self.loads if kind is EventKind.LOAD else self.stores
        totals[operand] += words
        if self.record:
            rows, columns = where
            self.events.append(
                Event(
                    kind=kind,
                    operand=operand,
                    rows=as_array(rows),
                    columns=as_array(columns),
                    words=words,
                    cells=None if cells is None else cells.copy(),
                    problem=self.problem,
                    level=self.level,
                    stream=self.stream,
                    along=along,
                )
            )

    def occupied(self, kind: EventKind, operand: str, words: int) -> None:
        """Note that words of fast memory were reserved or released."""
        if self.record:
            self.events.append(Event(kind=kind, operand=operand, words=words, problem=self.problem, level=self.level))

    def computed(self, step: Step, rows: Indices, columns: Indices, inner: Indices | None = None) -> None:
        """Note that a step computed the rows and columns of its operand."""
        if self.record:
            self.events.append(
                Event(
                    kind=EventKind.COMPUTE,
                    operand=step.operand,
                    rows=as_array(rows),
                    columns=as_array(columns),
                    inner=_NONE if inner is None else as_array(inner),
                    step=step,
                    problem=self.problem,
                    level=self.level,
                    stream=self.stream,
                )
            )
