"""The off-chip memory: channels that deliver bursts, rows that must be opened, and refresh.

Addresses are spread over the channels burst by burst. A transfer that continues where the last one of its matrix ended
finds its rows open, or opened ahead in another bank: it moves at the rate of the channels. One that begins elsewhere
meets a closed row in every bank, and its first word comes after a precharge, an activation and the read latency; if
it was not prefetched, that time is lost. Runs that are short open a row for little, at most four in the window of
four activations. Stores are posted: nothing waits for a row to open. Refresh takes its share of all
transfers, on average (``refresh`` has it as events).

>>> from attenio.parts import HbmParts
>>> hbm = Hbm.of(HbmParts(), bytes_per_s=128 * 10**9, clock_hz=10**9, element_bytes=2)
>>> hbm.granule_words, hbm.miss_cycles
(256, Fraction(42, 1))
>>> hbm.transfer_cycles(127040) * 14 / 15       # 1,985 rows of 64 words at 64 words a cycle, before refresh
Fraction(1988, 1)
"""

from dataclasses import dataclass
from fractions import Fraction

from attenio.accelerator.pe_array import ceil_div
from attenio.accelerator.step import Pace
from attenio.parts import HbmParts


@dataclass(frozen=True, kw_only=True)
class Hbm:
    """A stack of memory, in cycles of the accelerator."""

    parts: HbmParts
    burst_cycles: Fraction
    miss_cycles: Fraction
    activate_cycles: Fraction
    element_bytes: int

    @classmethod
    def of(cls, parts: HbmParts, *, bytes_per_s: int, clock_hz: int, element_bytes: int) -> "Hbm":
        """The memory whose channels together move so many bytes a second."""
        miss_ns = parts.row_precharge_ns + parts.row_activate_ns + parts.read_latency_ns
        return cls(
            parts=parts,
            burst_cycles=Fraction(parts.burst_bytes * parts.channels * clock_hz, bytes_per_s),
            miss_cycles=Fraction(miss_ns * clock_hz, 10**9),
            activate_cycles=Fraction(parts.four_activates_ns * clock_hz, 4 * 10**9),
            element_bytes=element_bytes,
        )

    @property
    def granule_words(self) -> int:
        """Words of one burst on every channel: what a stream is delivered in."""
        return max(1, self.parts.channels * self.parts.burst_bytes // self.element_bytes)

    @property
    def refresh_factor(self) -> Fraction:
        """How much longer everything takes because of refresh."""
        interval = self.parts.refresh_interval_ns
        return Fraction(interval, interval - self.parts.refresh_ns)

    def transfer_cycles(self, words: int, *, run_words: int | None = None, jump: bool = False) -> Fraction:
        """Cycles to move words that lie in runs of ``run_words`` (one run if left out).

        With ``jump`` it begins where no row is open and nothing was prefetched.
        """
        if words == 0:
            return Fraction(0)
        run = words if run_words is None else min(run_words, words)
        runs, rest = divmod(words, run)
        bursts = runs * self._bursts(run) + self._bursts(rest)
        busiest = ceil_div(bursts, self.parts.channels) * self.burst_cycles
        opened = ceil_div(self._opened(run) * runs + self._opened(rest), self.parts.channels) * self.activate_cycles
        # rows of one run are opened ahead, each while the one before is read
        moved = busiest if runs + (rest > 0) == 1 else max(busiest, opened)
        return moved * self.refresh_factor + (self.miss_cycles if jump else 0)

    def pace(self, words: int) -> Pace:
        """Words of one run: a burst on every channel at a time."""
        return Pace(
            elements=words * self.element_bytes,
            units=self.parts.burst_bytes * self.parts.channels,
            cycles_a_turn=self.burst_cycles * self.refresh_factor,
        )

    def _bursts(self, words: int) -> int:
        return ceil_div(words * self.element_bytes, self.parts.burst_bytes)

    def _opened(self, words: int) -> int:
        """Rows that a run opens, over all channels."""
        touched = min(self.parts.channels, self._bursts(words))
        return max(touched, ceil_div(words * self.element_bytes, self.parts.page_bytes))
