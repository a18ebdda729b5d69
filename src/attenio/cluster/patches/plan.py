"""What a patchwork sends and holds, and which of the tables that are kept sends the fewest words.

>>> from attenio.cluster.patches.plan import best_patches
>>> plan = best_patches(Workload(n=2**20, d=128, heads=64, kv_heads=8, mask="causal", dtype="bf16"), 8)
>>> plan.patchwork.devices, plan.patchwork.heads, plan.imbalance < 1.02
(8, 8, True)
"""

from dataclasses import dataclass

from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.patches.halves import halves
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.patches.tables import tables
from attenio.cluster.patches.words import least_words_per_device, patches_words
from attenio.cluster.traffic import applies, check_layout
from attenio.cluster.words import StageWords
from attenio.workload import Workload

_LEAST = 16  # tokens of a block from which on tables are looked at
# Numbers of KV heads that two ranks each share in halves, and blocks up to which these are cut to pass on small parts.
_HALVES, _CUT, _FINE = range(4, 33), 4, 32


@dataclass(frozen=True, kw_only=True)
class PatchesPlan(LayoutPlan):
    """A patchwork on its devices."""

    patchwork: Patchwork

    @property
    def layout(self) -> Patchwork:
        """The layout."""
        return self.patchwork

    def words(self) -> tuple[StageWords, ...]:
        """What every rank sends and receives in every stage."""
        return patches_words(self.workload, self.patchwork)

    def pairs(self) -> list[int]:
        """Pairs of every rank."""
        return self.patchwork.pairs(self.workload.keys)


def plan_patches(workload: Workload, patchwork: Patchwork) -> PatchesPlan:
    """What this patchwork sends."""
    check_layout(workload, patchwork.heads, "patches")
    patchwork.sizes(workload.keys)
    return PatchesPlan(workload=workload, patchwork=patchwork)


def best_patches(workload: Workload, devices: int) -> PatchesPlan | None:
    """The table whose busiest rank sends the fewest words; None where there is none for so many devices and heads."""
    if not applies(workload):
        return None
    plans = [
        plan_patches(workload, each)
        for each in (*tables(), *_halves_of(workload.kv_heads, devices))
        if each.devices == devices and workload.kv_heads % each.heads == 0 and workload.keys >= _LEAST * each.blocks
    ]
    best: tuple[int, int] | None = None
    # The first of those that send as few; tables that could send fewer by their mean are looked at before others.
    for least, place in sorted((least_words_per_device(workload, plan.patchwork), i) for i, plan in enumerate(plans)):
        if best is None or (least, place) < best:
            best = min(best or (plans[place].words_per_device, place), (plans[place].words_per_device, place))
    return None if best is None else plans[best[1]]


def _halves_of(heads: int, devices: int) -> tuple[Patchwork, ...]:
    """Patchworks of two ranks a KV head: all by keys, and half of them by rows."""
    if devices != 2 * heads or heads not in _HALVES:
        return ()
    found = tuple(halves(heads, by_rows) for by_rows in (0, heads // 2))
    return found + tuple(each.finer(_CUT) for each in found if each.blocks <= _FINE)
