"""Best tiles of phases that several forms share: found once, and kept with the cases."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.words.form import Form

# Words and sizes that a search of a phase finds.
_FIGURES = 3
# Cases, their phase, and the words that its tiles may move at most, to words and sizes; beyond these words, any.
Search = Callable[[Cases, Any, Ints], tuple[Ints, ...]]


class Found(NamedTuple):
    """Words and sizes of the best tiles of a phase, as far as they are known, and which of these cases are asked about.

    They are kept with the cases, as another form may have the same phase.
    """

    known: Ints
    which: Ints

    @classmethod
    def of(cls, every: Cases, form: Form, index: Ints, place: int) -> "Found":
        """Those of a phase of a form of the different widths."""
        phase = form.phases[place]
        # with the phase, so that no other has its id
        _, known = every.answers.setdefault(id(phase), (phase, np.full((_FIGURES, len(every)), NOTHING)))
        return cls(known, index)


def searched(search: Search, asked: tuple[Cases, Any, Ints], found: Found | None) -> Iterable[Ints]:
    """What a search finds, in cases in which it is not known yet."""
    if found is None:
        return search(*asked)
    best = found.known[:, found.which]
    left = np.flatnonzero(best[0] == NOTHING)
    if left.size:
        some = asked if len(left) == len(found.which) else take(asked, left)
        for mine, new in zip(best, search(*some), strict=True):
            mine[left] = new
        good = left[best[0, left] <= asked[2][left]]
        found.known[:, found.which[good]] = best[:, good]
    return best
