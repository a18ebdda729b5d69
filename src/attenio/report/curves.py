"""The numbers behind the figures: every dataflow and every bound along one axis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from attenio.bounds import LowerBound, bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import Machine
from attenio.masks import BlockSparse, Causal, Dense, Documents, Layout, SharedPrefix, SlidingWindow
from attenio.planning import best_plan_for, candidates, published_plan_for
from attenio.planning.approximate.applies import why_no_features
from attenio.planning.plan import Dataflow, Plan
from attenio.workload import Workload

Progress = Callable[[int, int], None]

# The longest sequence that is counted exactly.
LONGEST = 2**30
_ENDLESS_WORDS = 2**56

# Schedules that write the scores out, or the outputs many times: they win only below the crossover.
_SMALL_CACHE = (
    Dataflow.STANDARD,
    Dataflow.SQUARE_TILING,
    Dataflow.RANK_ONE_TILING,
    Dataflow.SCORE_STATIONARY,
    Dataflow.TILED_PRODUCTS,
    Dataflow.FUSED_VALUES,
    Dataflow.SPILLED_GRADIENTS,
)


@dataclass(frozen=True, kw_only=True)
class Regime:
    """A range of fast memory in which one kind of schedule is best; ``stop_words`` is exclusive."""

    name: str
    start_words: int
    stop_words: int


@dataclass(frozen=True, kw_only=True)
class _Point:
    """One question of a curve: plans use ``fast_words``; the bounds grant ``inside_words``."""

    workload: Workload
    fast_words: int
    inside_words: int


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Plans and bounds at each value of one variable; None where nothing fits."""

    values: tuple[int, ...]
    best: dict[Dataflow, tuple[Plan | None, ...]]
    published: dict[Dataflow, tuple[Plan | None, ...]]
    bounds: tuple[tuple[LowerBound, ...], ...]
    regimes: tuple[Regime, ...] = ()

    @property
    def floors(self) -> tuple[LowerBound, ...]:
        """The largest bound for ordinary products at each value."""
        return tuple(largest_ordinary(bounds) for bounds in self.bounds)


def along_memory(workload: Workload, machine: Machine, *, progress: Progress | None = None) -> Curves:
    """Everything against the words of fast memory, from where nothing fits to where everything does.

    At every point the machine is a fast memory of that size and a slow one, with nothing in between or inside, and
    tiles of any size.
    """
    own_words = machine.slowest_boundary.fast_words(workload.dtype)
    regimes = _regimes(workload)
    start = max(regimes[0].start_words, min(workload.d, own_words // 2))
    end = max(8 * regimes[-1].start_words, 4 * own_words)
    marks = {own_words, *(regime.start_words for regime in regimes)}
    values = sorted(value for value in _grid(workload, regimes[-1].start_words, end) | marks if start <= value <= end)
    points = [_Point(workload=workload, fast_words=value, inside_words=value) for value in values]
    curves = _curves(values, points, machine.with_free_tiles(), progress)
    shown = (replace(r, start_words=max(r.start_words, start), stop_words=min(r.stop_words, end)) for r in regimes)
    return replace(curves, regimes=tuple(regime for regime in shown if regime.start_words < regime.stop_words))


def along_length(workload: Workload, machine: Machine, *, progress: Progress | None = None) -> Curves:
    """Everything against the number of keys, at the machine's own fast memory."""
    boundary, dtype = machine.slowest_boundary, workload.dtype
    fast, inside = boundary.fast_words(dtype), boundary.words_inside(dtype)
    points = {}
    points_per_octave = min(2, _points_per_octave(workload))
    for k in range(-6 * points_per_octave, 3 * points_per_octave + 1):
        longer = lengthened(workload, k / points_per_octave)
        if longer is not None:
            points[longer.keys] = _Point(workload=longer, fast_words=fast, inside_words=inside)
    values = sorted(points)
    return _curves(values, [points[value] for value in values], machine, progress)


def _grid(workload: Workload, fits: int, end: int) -> set[int]:
    """Sizes to look at, few well beyond the one where everything fits: little changes there, and plans take longest."""
    points_per_octave = _points_per_octave(workload)
    fine = {round(2 ** (k / points_per_octave)) for k in range(points_per_octave * (fits.bit_length() + 1))}
    return {size for size in fine if size <= 2 * fits} | {2**k for k in range(end.bit_length() + 1)}


def _points_per_octave(workload: Workload) -> int:
    """Fewer where a plan takes longer: irregular masks are counted block by block, or document by document."""
    irregular = isinstance(workload.mask, BlockSparse | Layout) or len(workload.separate_patterns) > 16
    return 1 if irregular else 3


def lengthened(workload: Workload, octaves: float) -> Workload | None:
    """The same question about a sequence 2**octaves as long, or None where the mask has no such length.

    One query stays one query; a window stays as wide, also in a layout; documents and a prefix stretch; blocks that
    are given one by one keep their places.
    """
    factor = 2.0**octaves
    keys = max(1, round(workload.keys * factor))
    queries = 1 if workload.is_decode else max(1, round(workload.queries * factor))
    mask = workload.mask
    match mask:
        case SlidingWindow(width=width, causal=causal):
            mask = SlidingWindow(width=min(width, keys), causal=causal)
        case Documents(lengths=lengths, key_lengths=key_lengths, causal=causal):
            stretched = tuple(max(1, round(v * factor)) for v in lengths)
            stretched_keys = tuple(max(1, round(v * factor)) for v in key_lengths)
            mask = Documents(lengths=stretched, key_lengths=stretched_keys, causal=causal)
            queries, keys = sum(stretched), sum(stretched_keys)
        case SharedPrefix(length=length, causal=causal):
            own_keys = workload.keys - length
            mask = SharedPrefix(length=max(1, round(length * factor)), causal=causal)
            keys, queries = mask.length + own_keys, workload.queries
        case BlockSparse():
            rows, cols = mask.query_block * factor, mask.key_block * factor
            if not all(v.is_integer() for v in (rows, cols, workload.queries * factor, workload.keys * factor)):
                return None
            mask = replace(mask, query_block=int(rows), key_block=int(cols))
        case Layout():
            if mask.refusal(queries=queries, keys=keys) is not None:
                return None
        case Dense() | Causal():
            pass
        case _:
            assert_never(mask)
    if max(queries, keys) > LONGEST:
        return None
    return replace(workload, queries=queries, keys=keys, mask=mask)


def _applicable(workload: Workload, machine: Machine) -> tuple[Dataflow, ...]:
    dataflows = dict.fromkeys(candidate.dataflow for candidate in candidates(workload, machine))
    return tuple(each for each in dataflows if not each.is_approximate or why_no_features(workload, each) is None)


def _curves(values: Sequence[int], points: Sequence[_Point], machine: Machine, progress: Progress | None) -> Curves:
    dataflows = _applicable(points[-1].workload, machine)
    units = machine.slowest_boundary.fast.units
    best: dict[Dataflow, list[Plan | None]] = {dataflow: [] for dataflow in dataflows}
    published: dict[Dataflow, list[Plan | None]] = {dataflow: [] for dataflow in dataflows}
    bounds, granularity = [], machine.granularity_of(points[0].workload.dtype)
    for done, point in enumerate(points, start=1):
        for dataflow in dataflows:
            best[dataflow].append(_plan_or_none(point.workload, point.fast_words, dataflow, granularity))
            published[dataflow].append(published_plan_for(point.workload, point.fast_words, dataflow, units=units))
        bounds.append(bounds_for(point.workload, point.inside_words, units=units))
        if progress is not None:
            progress(done, len(points))
    return Curves(
        values=tuple(values),
        best={dataflow: tuple(plans) for dataflow, plans in best.items() if any(plans)},
        published={dataflow: tuple(plans) for dataflow, plans in published.items() if any(plans)},
        bounds=tuple(bounds),
    )


def _plan_or_none(
    workload: Workload, fast_words: int, dataflow: Dataflow | None, granularity: Granularity = FREE_TILES
) -> Plan | None:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow, granularity=granularity)
    except DoesNotFit:
        return None


def _regimes(workload: Workload) -> tuple[Regime, ...]:
    """Where plans begin to exist, where the large-cache schedules take over, and where more memory stops helping."""
    least = _first(lambda words: _plan_or_none(workload, words, None) is not None, 1, _ENDLESS_WORDS)
    fewest = best_plan_for(workload, _ENDLESS_WORDS).moved_words
    fits = _first(lambda words: best_plan_for(workload, words).moved_words <= fewest, least, _ENDLESS_WORDS)
    crossover = _crossover(workload, least, fits)
    edges = [("small cache", least, crossover), ("large cache", crossover, fits), ("all fits", fits, _ENDLESS_WORDS)]
    return tuple(Regime(name=name, start_words=a, stop_words=b) for name, a, b in edges if a < b)


def _crossover(workload: Workload, least: int, fits: int) -> int:
    """The first size from which no small-cache schedule is the best."""

    def small_wins(fast_words: int) -> bool:
        plan = best_plan_for(workload, fast_words)
        keeps_rows = plan.dataflow is Dataflow.SCORE_STATIONARY and "resident_rows" in plan.tiles
        return plan.dataflow in _SMALL_CACHE and not keeps_rows

    # Between doublings the winner may flicker with the ceilings; the last change is what is meant.
    words, last = least, None
    while words < fits:
        if small_wins(words):
            last = words
        words *= 2
    if last is None:
        return least
    return _first(lambda size: not small_wins(size), last, min(2 * last, fits))


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least size in [low, high] at which a property that stays true once true holds; ``high`` is taken to hold."""
    probe = low
    while probe < high and not holds(probe):
        low, probe = probe + 1, 2 * probe
    high = min(probe, high)
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
