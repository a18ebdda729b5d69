"""Which strips send the fewest words, and what a rank of them sends and holds.

>>> from attenio.cluster.strips.plan import best_strips
>>> plan = best_strips(Workload(n=65536, d=128, heads=8, mask="causal"), 256)
>>> str(plan.strips), plan.words_per_device, round(plan.gap, 3)
('8 x (7 + 6 + 5 + 4 + 4 + 3 + 2 + 1) with homes in rows', 4394433, 1.07)
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np

from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.strips.homes import Owners
from attenio.cluster.strips.layout import Strips, product_pairs
from attenio.cluster.strips.words import all_words, strips_words
from attenio.cluster.traffic import STAGES, applies, check_layout
from attenio.cluster.words import StageWords, stage_widths
from attenio.errors import InvalidInput
from attenio.workload import Direction, Workload

# Devices beyond which strips are not looked for: the words of every rank are counted one by one.
MOST_DEVICES = 4096
_WIDTHS = 64
_ONE_TOP = 128
# Layouts whose words are added up, fewer for very many devices, and those of them that are counted rank by rank.
_TRIED, _COUNTED = 12, 4
# Devices beyond which zigzag tokens never sent less than tokens of a rank's rows.
_ZIGZAG = 64
_TOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True, kw_only=True)
class StripsPlan(LayoutPlan):
    """Strips on so many devices."""

    strips: Strips

    @property
    def layout(self) -> Strips:
        """The layout."""
        return self.strips

    def words(self) -> tuple[StageWords, ...]:
        """What every rank sends and receives in every stage."""
        return strips_words(self.workload, self.strips)

    def pairs(self) -> list[int]:
        """Pairs of every place."""
        return [product_pairs(each) for each in self.strips.products(self.workload.keys)]


def plan_strips(workload: Workload, strips: Strips) -> StripsPlan:
    """What these strips send."""
    check_layout(workload, strips.heads, "strips")
    strips.products(workload.keys)
    return StripsPlan(workload=workload, strips=strips)


def best_strips(workload: Workload, devices: int, *, owners: Owners | None = None) -> StripsPlan | None:
    """The strips whose busiest rank sends the fewest words; None where there are none, as under other masks.

    ``owners`` says who owns which tokens; None takes what sends less.
    """
    if not applies(workload) or not 1 < devices <= MOST_DEVICES or workload.keys < 16 * devices:
        return None
    found = []
    for heads in (h for h in range(1, min(devices, workload.kv_heads) + 1)):
        if workload.kv_heads % heads == 0 and devices % heads == 0 and devices > heads:
            for words, counts, top in _cheapest(devices // heads, _weights(workload, heads)):
                found.append((words, Strips(heads=heads, counts=counts, top=top)))
    few = [strips for _, strips in sorted(found, key=lambda each: each[0])[: max(2, min(_TRIED, 4096 // devices))]]
    # own rows only: what is cheapest where few keys go with many query heads
    few += [Strips(heads=each.heads, counts=(), top=each.places) for each in few if each.places <= _ONE_TOP]
    kinds = (owners,) if owners is not None else tuple(Owners) if devices <= _ZIGZAG else (Owners.ROWS,)
    ranked = []
    for strips in dict.fromkeys(replace(each, owners=kind) for each in few for kind in kinds):
        try:
            ranked.append((all_words(workload, strips), str(strips), strips))
        except InvalidInput:
            continue
    counted = sorted(ranked)[: max(2, min(_COUNTED, 1024 // devices))]
    plans = [plan_strips(workload, strips) for *_, strips in counted]
    return min(plans, key=lambda plan: plan.words_per_device, default=None)


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """Words that a row and a key of a head group take on their way to a rank, and on the way back."""

    row_out: float
    row_back: float
    key_out: float
    key_back: float


def _weights(workload: Workload, heads: int) -> _Weights:
    rows, keys = workload.heads // heads, workload.kv_heads // heads
    passes = (Direction.FORWARD, Direction.BACKWARD) if workload.is_training else (workload.direction,)
    total = np.zeros(4)
    for direction in passes:
        work = workload.towards(direction)
        for stage in STAGES[direction]:
            widths, back = stage_widths(work, stage), stage.value.startswith("reduce")
            total += (
                [0, rows * widths.row, 0, keys * widths.key] if back else [rows * widths.row, 0, keys * widths.key, 0]
            )
    return _Weights(
        row_out=float(total[0]), row_back=float(total[1]), key_out=float(total[2]), key_back=float(total[3])
    )


@lru_cache(maxsize=256)
def _cheapest(places: int, weights: _Weights) -> list[tuple[float, tuple[int, ...], int]]:
    """Strips of so many places with the fewest words, as if lengths were real numbers and homes random."""
    found: dict[tuple[tuple[int, ...], int], float] = {}
    for step in range(_WIDTHS):
        width = exp(log(0.5 / places) * (1 - step / (_WIDTHS - 1)))
        for top in (each for each in _TOPS if each <= places):
            counts = _counts(places, width, top)
            if (counts, top) not in found:
                found[counts, top] = _fluid_words(places, counts, top, weights)
    return sorted((words, *layout) for layout, words in found.items())[:_TRIED]


def _counts(places: int, keys: float, top: int) -> tuple[int, ...]:
    """Strips whose places have about so many keys each, as a part of the sequence."""
    left, found = places, []
    while left > top:
        found.append(min(left - top, max(1, round(sqrt(left / places) / keys))))
        left -= found[-1]
    return tuple(found)


def _fluid_words(places: int, counts: tuple[int, ...], top: int, weights: _Weights) -> float:
    """Words of the busiest rank: the mean, or what one with a large part cannot leave to others."""
    left, rows, keys, most = places, 0.0, 0.0, 0.0
    for count in counts:
        end, start = sqrt(left / places), sqrt((left - count) / places)
        rows, keys = rows + count * (end - start), keys + end
        most = max(most, weights.row_back * (end - start) + weights.key_back * end / count)
        left -= count
    end = sqrt(top / places)
    rows, keys = rows + end, keys + end * (0.75 * top + 0.25)
    most = max(most, weights.row_back * end / top + weights.key_back * end)
    rows, keys = rows / places, keys / places
    mean = (weights.row_out + weights.row_back) * rows + (weights.key_out + weights.key_back) * keys
    return max(mean, most + weights.row_out * rows + weights.key_out / places)
