"""What a layout sends and holds: everything that is counted about it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.layout import Layout
from attenio.cluster.layout_memory import layout_memory
from attenio.cluster.words import StageWords
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True)
class LayoutPlan(ABC):
    """A layout on its devices."""

    workload: Workload

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The layout."""

    @abstractmethod
    def words(self) -> tuple[StageWords, ...]:
        """What every rank sends and receives in every stage."""

    @abstractmethod
    def pairs(self) -> list[int]:
        """Pairs of ranks, or of places that have as many ranks each."""

    @cached_property
    def sent(self) -> NDArray[np.int64]:
        """Words that every rank sends."""
        total: NDArray[np.int64] = np.sum([each.sent for each in self.words()], axis=0)
        return total

    @property
    def words_per_device(self) -> int:
        """Words that the busiest rank sends."""
        return int(self.sent.max())

    @property
    def total_words(self) -> int:
        """Words that all ranks send."""
        return int(self.sent.sum())

    @cached_property
    def memory_words(self) -> int:
        """Words that the rank with most holds."""
        return int(layout_memory(self.workload, self.layout).max())

    @cached_property
    def imbalance(self) -> Fraction:
        """Pairs of the busiest rank over the mean."""
        each = self.pairs()
        return Fraction(max(each) * len(each), sum(each))

    @cached_property
    def bound_words_per_device(self) -> int:
        """Words that the busiest device must send for work as even as this."""
        devices = self.layout.devices
        return -(-balanced_exchange(self.workload, devices, imbalance=self.imbalance).words // devices)

    @property
    def gap(self) -> float | None:
        """Words of the busiest rank over the bound's; None where nothing must be sent."""
        bound = self.bound_words_per_device
        return self.words_per_device / bound if bound else None
