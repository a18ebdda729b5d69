"""What a patchwork sends and holds, and which of the tables that are kept sends the fewest words.

>>> from attenio.cluster.patches.plan import best_patches
>>> plan = best_patches(Workload(n=2**20, d=128, heads=64, kv_heads=8, mask="causal", dtype="bf16"), 8)
>>> plan.patchwork.devices, plan.patchwork.heads, plan.imbalance < 1.02
(8, 8, True)
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.patches.memory import patches_memory
from attenio.cluster.patches.tables import tables
from attenio.cluster.patches.words import check_workload, patches_words
from attenio.cluster.strips.words import applies
from attenio.workload import Workload

_LEAST = 16  # tokens of a block from which on tables are looked at


@dataclass(frozen=True, kw_only=True)
class PatchesPlan:
    """A patchwork on its devices: everything that is counted about it."""

    workload: Workload
    patchwork: Patchwork

    @cached_property
    def sent(self) -> NDArray[np.int64]:
        """Words that every rank sends."""
        total: NDArray[np.int64] = np.sum([each.sent for each in patches_words(self.workload, self.patchwork)], axis=0)
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
        return int(patches_memory(self.workload, self.patchwork).max())

    @cached_property
    def imbalance(self) -> Fraction:
        """Pairs of the busiest rank over the mean."""
        each = self.patchwork.pairs(self.workload.keys)
        return Fraction(max(each) * len(each), sum(each))

    @cached_property
    def bound_words_per_device(self) -> int:
        """Words that the busiest device must send for work as even as this."""
        bound = balanced_exchange(self.workload, self.patchwork.devices, imbalance=self.imbalance)
        return -(-bound.words // self.patchwork.devices)

    @property
    def gap(self) -> float | None:
        """Words of the busiest rank over the bound's; None where nothing must be sent."""
        bound = self.bound_words_per_device
        return self.words_per_device / bound if bound else None


def plan_patches(workload: Workload, patchwork: Patchwork) -> PatchesPlan:
    """What this patchwork sends."""
    check_workload(workload, patchwork)
    patchwork.sizes(workload.keys)
    return PatchesPlan(workload=workload, patchwork=patchwork)


def best_patches(workload: Workload, devices: int) -> PatchesPlan | None:
    """The table whose busiest rank sends the fewest words; None where there is none for so many devices and heads."""
    if not applies(workload):
        return None
    plans = [
        plan_patches(workload, each)
        for each in tables()
        if each.devices == devices and workload.kv_heads % each.heads == 0 and workload.keys >= _LEAST * each.blocks
    ]
    return min(plans, key=lambda plan: plan.words_per_device, default=None)
