"""Schemes that have names, as grids, and the best grid beside them.

Ring attention sends keys round in P - 1 turns; the words are those of sending them to every other rank. What tells
ring, zigzag and striped apart is which tokens a rank holds, hence how even causal work is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import assert_never

from attenio.cluster.grid import Grid, check_grid, grids
from attenio.cluster.partition import Sharding, sharding_for
from attenio.cluster.placement import Axis, Placement, placements
from attenio.cluster.plan import Cluster, ClusterPlan, plan_grid
from attenio.cluster.words import sent_words
from attenio.errors import DoesNotFit
from attenio.masks import SlidingWindow
from attenio.names import member_named
from attenio.quantities import show_count
from attenio.workload import Workload, checked_workload

_HEADS_CLOSEST = Placement(order=(Axis.HEADS, Axis.QUERIES, Axis.KEYS))


class Scheme(Enum):
    """A way to spread attention over devices, by its name in the literature."""

    RING = "ring"  # Liu et al. 2023
    ZIGZAG = "zigzag"  # balanced ring: early and late chunks together
    STRIPED = "striped"  # Brandon et al. 2023
    ULYSSES = "ulysses"  # Jacobs et al. 2023
    USP = "usp"  # Fang and Zhao 2024: heads inside, a ring outside
    LOONGTRAIN = "loongtrain"  # Gu et al. 2024: the same, placed as is best
    MESH_2D = "2d-mesh"  # Attention2D, StarTrail, Mesh-Attention
    TREE = "tree"  # tree attention, flash-decoding

    @classmethod
    def named(cls, name: "str | Scheme") -> "Scheme":
        """The scheme with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "scheme")


@dataclass(frozen=True, kw_only=True)
class SchemePlan:
    """A scheme and its plan; None where it does not apply, which ``reason`` then says."""

    scheme: Scheme
    plan: ClusterPlan | None
    reason: str = ""


def best_cluster_plan(workload: Workload, cluster: Cluster, *, grid: Grid | None = None) -> ClusterPlan:
    """The grid whose busiest device sends the fewest words, or the one given, placed so that it takes the least time.

    >>> plan = best_cluster_plan(Workload(n=65536, d=128, heads=8), Cluster(devices=64))
    >>> str(plan.grid), round(plan.gap, 3)
    ('8 x 4 x 2', 1.072)
    """
    checked_workload(workload)
    if grid is not None:
        check_grid(grid, workload)
        sharding_for(workload.mask)
    candidates = every_grid(workload, cluster.devices) if grid is None else (grid,)
    return _best(workload, cluster, candidates, orders=None)


def every_grid(workload: Workload, devices: int) -> tuple[Grid, ...]:
    """The grids that a workload can have; under a window those with one column of keys."""
    sharding_for(workload.mask)
    found = grids(devices, workload.kv_heads)
    return tuple(each for each in found if each.keys == 1 or not isinstance(workload.mask, SlidingWindow))


def scheme_plans(workload: Workload, cluster: Cluster) -> tuple[SchemePlan, ...]:
    """Every scheme that has a name."""
    return tuple(_scheme_plan(workload, cluster, scheme) for scheme in Scheme)


def _scheme_plan(workload: Workload, cluster: Cluster, scheme: Scheme) -> SchemePlan:
    devices = cluster.devices
    sharding, orders = None, None
    match scheme:
        case Scheme.RING | Scheme.ZIGZAG | Scheme.STRIPED:
            chosen: list[Grid] = [Grid(queries=devices)]
            kinds = {Scheme.RING: Sharding.CONTIGUOUS, Scheme.ZIGZAG: Sharding.ZIGZAG, Scheme.STRIPED: Sharding.STRIPED}
            sharding = kinds[scheme]
        case Scheme.ULYSSES:
            chosen = [Grid(heads=devices)] if workload.kv_heads % devices == 0 else []
        case Scheme.USP:
            chosen, orders = [each for each in every_grid(workload, devices) if each.keys == 1], (_HEADS_CLOSEST,)
        case Scheme.LOONGTRAIN:
            chosen = [each for each in every_grid(workload, devices) if each.keys == 1]
        case Scheme.MESH_2D:
            chosen = [each for each in every_grid(workload, devices) if each.heads == 1]
        case Scheme.TREE:
            chosen = [Grid(keys=devices)]
        case _:
            assert_never(scheme)
    if not chosen:
        return SchemePlan(scheme=scheme, plan=None, reason=show_count(workload.kv_heads, "KV head"))
    windowed = isinstance(workload.mask, SlidingWindow)
    if windowed and (sharding in (Sharding.ZIGZAG, Sharding.STRIPED) or chosen[0].keys > 1):
        return SchemePlan(scheme=scheme, plan=None, reason="a window needs neighbouring tokens together")
    try:
        return SchemePlan(scheme=scheme, plan=_best(workload, cluster, tuple(chosen), orders, sharding))
    except DoesNotFit as problem:
        return SchemePlan(scheme=scheme, plan=None, reason=str(problem))


def _best(
    workload: Workload,
    cluster: Cluster,
    candidates: tuple[Grid, ...],
    orders: tuple[Placement, ...] | None,
    sharding: Sharding | None = None,
) -> ClusterPlan:
    """The best plan over grids and placements; if none fits, what the one that needs least says.

    With little memory a grid of more columns takes several passes over the keys: its words are then more than those it
    was ranked by, and the next ones are tried until none can send less.
    """
    best, refusal = None, None
    for grid in sorted(candidates, key=lambda grid: _busiest(workload, grid)):
        if best is not None and best.words_per_device <= _busiest(workload, grid):
            break
        try:
            plans = list(_placed(workload, grid, cluster, orders, sharding))
        except DoesNotFit as problem:
            if refusal is None or (problem.needed_words or 0) < (refusal.needed_words or 0):
                refusal = problem
            continue
        found = min(plans, key=lambda plan: (plan.words_per_device, plan.seconds or 0.0, plan.exchange_seconds or 0.0))
        best = found if best is None or found.words_per_device < best.words_per_device else best
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _placed(
    workload: Workload,
    grid: Grid,
    cluster: Cluster,
    orders: tuple[Placement, ...] | None,
    sharding: Sharding | None,
) -> Iterator[ClusterPlan]:
    some = (Placement(),) if cluster.topology is None else tuple(placements(grid)) if orders is None else orders
    for order in some:
        yield plan_grid(workload, grid, cluster, placement=order, sharding=sharding)


@lru_cache(maxsize=4096)
def _busiest(workload: Workload, grid: Grid) -> int:
    return int(sent_words(workload, grid).max())
