"""Shared memory of a block with what happened to each of its words: who wrote it and who read it, and when.

An access must come after what it conflicts with: there must be a chain of barriers and waits from one to the other,
whichever of them ran first this time (vector clocks). So a missing wait is found although nothing went wrong.
"""

import numpy as np

__all__ = ["FIRST", "Fault", "Shared"]

# Where dynamic shared memory begins: the first kilobyte is the system's.
FIRST = 1024


class Fault(Exception):
    """What a kernel must not do."""


class Shared:
    """Words of 4 bytes. ``agents`` are numbers of those who may access it; each has a clock of its own."""

    def __init__(self, size, agents):
        words = (FIRST + size + 3) // 4
        self.words = np.zeros(words, "u4")
        self.limit = FIRST + size
        self._writer, self._written = np.zeros(words, "i4"), np.zeros(words, "i4")
        self._read = np.zeros((agents, words), "i4")
        self._readers = np.zeros(0, "i4")
        self._is_reader = np.zeros(agents, bool)
        self._unfenced = np.zeros(words, "i2")  # by which warp, plus 1, generic writes that the async proxy may not see

    def check(self, first, last, align):
        """Bytes from the first address to before the last are there."""
        if first < FIRST or last > self.limit:
            raise Fault(f"shared memory {first - FIRST}..{last - FIRST} of {self.limit - FIRST} bytes is accessed")
        if first % align:
            raise Fault(f"shared memory at {first - FIRST} is not aligned to {align} bytes")

    def before_read(self, at, agent, time, clock, *, is_async=False):
        """Words ``at`` are read by an agent at its time, who knows ``clock``."""
        written = self._written[at]
        if not written.all():
            raise Fault(f"{self._where(at, written == 0)} is read, and nothing wrote it")
        late = written > clock[self._writer[at]]
        if late.any():
            raise Fault(f"{self._where(at, late)} is read without waiting for who wrote it")
        if is_async:
            unseen = self._unfenced[at] != 0
            if unseen.any():
                raise Fault(f"{self._where(at, unseen)} is read by the async proxy without a fence after its writes")
        if not self._is_reader[agent]:
            self._is_reader[agent] = True
            self._readers = np.flatnonzero(self._is_reader).astype("i4")
        self._read[agent, at] = time

    def before_write(self, at, agent, time, clock, *, generic_of=None):
        """Words ``at`` are written; by a warp of the generic proxy, or by the async one."""
        late = self._written[at] > clock[self._writer[at]]
        if late.any():
            raise Fault(f"{self._where(at, late)} is written without waiting for who wrote it before")
        readers = self._readers
        read = self._read[readers[:, None], at[None]] > clock[readers, None]
        if read.any():
            raise Fault(f"{self._where(at, read.any(0))} is written without waiting for who reads it")
        self._writer[at], self._written[at] = agent, time
        self._unfenced[at] = 0 if generic_of is None else generic_of + 1

    def fence(self, at, warp):
        """What a warp wrote to these words is seen by the async proxy."""
        self._unfenced[at[self._unfenced[at] == warp + 1]] = 0

    @staticmethod
    def _where(at, which):
        return f"shared memory at {int(at[which].min()) * 4 - FIRST}"
