"""The answer about many devices: the best grid, every scheme that has a name beside it, and what must be exchanged."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attenio.cluster.grid import Grid
from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.layout_times import LayoutTimes, layout_times
from attenio.cluster.patches import PatchesPlan, best_patches
from attenio.cluster.plan import Cluster, ClusterPlan
from attenio.cluster.schemes import SchemePlan, best_cluster_plan, scheme_plans
from attenio.cluster.strips import StripsPlan, best_strips
from attenio.plain_values import plain_fields
from attenio.quantities import bytes_of, show_bytes, show_count, show_seconds
from attenio.report.notation import show_ratio
from attenio.workload import Workload

Progress = Callable[[int, int], None]

NOTHING = "–"
LEVEL = ("name", "words_per_device", "total_words", "seconds")
STAGE = ("direction", "stage", "words_per_device", "seconds", "overlaps_compute")
_UNEVEN = 1.01  # work that is less even than this is told
_FASTER = 0.999  # so is a share of the plan's time that is no more


@dataclass(frozen=True, kw_only=True)
class ClusterAnswer:
    """A workload on many devices."""

    workload: Workload
    plan: ClusterPlan
    schemes: tuple[SchemePlan, ...]
    strips: StripsPlan | None = None
    strips_times: LayoutTimes | None = None
    patches: PatchesPlan | None = None
    patches_times: LayoutTimes | None = None

    @property
    def layouts(self) -> tuple[tuple[str, LayoutPlan], ...]:
        """Causal work in other shapes than grids, by name."""
        named = (("strips", self.strips), ("patches", self.patches))
        return tuple((name, plan) for name, plan in named if plan is not None)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain values: words are those that the busiest device sends."""
        plan, cluster = self.plan, self.plan.cluster
        return {
            "devices": cluster.devices,
            "device_memory_bytes": cluster.memory_bytes,
            "topology": None if cluster.topology is None else cluster.topology.name,
            **_numbers(plan),
            "resident": resident(plan),
            "bound_words_per_device": plan.bound_words_per_device,
            "bound_total_words": plan.bound.words,
            "bound_theorem": plan.bound.theorem,
            "bound_strength": plan.bound.strength.value,
            "levels": [plain_fields(each, *LEVEL) for each in plan.levels],
            "stages": [plain_fields(each, *STAGE) for each in plan.stages],
            "schemes": [
                {"scheme": each.scheme.value, **_numbers(each.plan)}
                if each.plan is not None
                else {"scheme": each.scheme.value, "grid": None, "reason": each.reason}
                for each in self.schemes
            ],
            "strips": None if self.strips is None else _strips_numbers(self.strips, self.strips_times),
            "patches": None if self.patches is None else _patches_numbers(self.patches, self.patches_times),
        }


def cluster_answer(
    workload: Workload, cluster: Cluster, grid: Grid | None = None, *, progress: Progress | None = None
) -> ClusterAnswer:
    """The best grid for a workload on a cluster, or the one given, and every scheme that has a name.

    ``progress`` is told after the grid, the strips, the patches and the schemes.
    """

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, 4)

    plan = best_cluster_plan(workload, cluster, grid=grid)
    tell(1)
    strips = best_strips(workload, cluster.devices) if grid is None else None
    tell(2)
    patches = best_patches(workload, cluster.devices) if grid is None else None
    tell(3)
    schemes = scheme_plans(workload, cluster)
    tell(4)
    memory = cluster.memory_words(workload)
    strips = strips if strips is not None and (memory is None or strips.memory_words <= memory) else None
    patches = patches if patches is not None and (memory is None or patches.memory_words <= memory) else None
    return ClusterAnswer(
        workload=workload,
        plan=plan,
        schemes=schemes,
        strips=strips,
        strips_times=None if strips is None else layout_times(strips, cluster),
        patches=patches,
        patches_times=None if patches is None else layout_times(patches, cluster),
    )


def _strips_numbers(plan: StripsPlan, times: LayoutTimes | None) -> dict[str, Any]:
    shape = plain_fields(plan.strips, "heads", "counts", "top")
    return {**shape, "owners": plan.strips.owners.value, **_layout_numbers(plan, times)}


def _patches_numbers(plan: PatchesPlan, times: LayoutTimes | None) -> dict[str, Any]:
    return {**plain_fields(plan.patchwork, "heads", "blocks"), **_layout_numbers(plan, times)}


def _layout_numbers(plan: LayoutPlan, times: LayoutTimes | None) -> dict[str, Any]:
    names = ("seconds", "exchange_seconds", "compute_seconds")
    return {
        **plain_fields(plan, "words_per_device", "total_words", "bound_words_per_device", "gap", "memory_words"),
        "imbalance": float(plan.imbalance),
        **(dict.fromkeys(names) if times is None else plain_fields(times, *names)),
        "levels": [] if times is None else [plain_fields(each, *LEVEL) for each in times.levels],
        "stages": [] if times is None else [plain_fields(each, *STAGE) for each in times.stages],
    }


def layout_rows(answer: ClusterAnswer) -> tuple[tuple[str, ...], ...]:
    """Causal work in other shapes than grids: the cells of their lines."""
    return tuple(row for row in (strips_row(answer), patches_row(answer)) if row)


def patches_row(answer: ClusterAnswer) -> tuple[str, ...]:
    """Causal work as a patchwork beside the grids: the cells of its line, none where no table is kept for it."""
    plan = answer.patches
    if plan is None:
        return ()
    note = f"{plan.patchwork.blocks} blocks of tokens, a table for {show_count(plan.patchwork.heads, 'KV head')}"
    return _layout_row("patches", plan, answer.patches_times, note)


def strips_row(answer: ClusterAnswer) -> tuple[str, ...]:
    """Causal work in strips of rows beside the grids: the cells of its line, none where there is nothing to say."""
    plan = answer.strips
    if plan is None:
        return ()
    counts = (*plan.strips.counts, plan.strips.top)
    groups = show_count(plan.strips.heads, "head group")
    note = f"{show_count(len(counts), 'strip')} of rows in {groups}" if counts else ""
    return _layout_row("strips", plan, answer.strips_times, note)


def _layout_row(name: str, plan: LayoutPlan, times: LayoutTimes | None, note: str) -> tuple[str, ...]:
    memory = show_bytes(bytes_of(plan.memory_words, element_bytes=plan.workload.dtype.bytes))
    time = NOTHING if times is None else show_seconds(times.seconds)
    return name, NOTHING, f"{plan.words_per_device:,}", show_gap(plan), time, memory, note


def show_gap(plan: ClusterPlan | LayoutPlan) -> str:
    """Words over the bound for work as even as this plan's."""
    return NOTHING if plan.gap is None else show_ratio(plan.gap)


def _numbers(plan: ClusterPlan) -> dict[str, Any]:
    return {
        "grid": plain_fields(plan.grid, "heads", "queries", "keys"),
        "sharding": plan.sharding.value,
        "placement": [axis.value for axis in plan.placement.order],
        **plain_fields(plan, "passes", "words_per_device", "total_words", "gap", "memory_words"),
        "memory_bytes": bytes_of(plan.memory_words, element_bytes=plan.workload.dtype.bytes),
        "imbalance": float(plan.imbalance),
        **plain_fields(plan, "seconds", "exchange_seconds", "compute_seconds"),
    }


def resident(plan: ClusterPlan) -> str:
    """What stays on a device while the rest passes by."""
    rows = "queries of its row and their sums stay"
    if plan.grid.queries == 1:
        return f"{rows}, and so do all keys of its column"
    again = "" if plan.passes == 1 else f", in {plan.passes} passes"
    return f"{rows}; keys stream{again}"


def scheme_rows(answer: ClusterAnswer) -> list[tuple[str, ClusterPlan | None, str]]:
    """The plan, and every scheme by its words: name, plan and what there is to say."""
    known = sorted(
        (each for each in answer.schemes if each.plan is not None),
        key=lambda each: (each.plan.words_per_device, each.plan.imbalance) if each.plan is not None else (0, 0),
    )
    rows = [("attenio", answer.plan, _note(answer.plan))]
    rows += [(each.scheme.value, each.plan, _note(each.plan)) for each in known if each.plan is not None]
    return [*rows, *((each.scheme.value, None, each.reason) for each in answer.schemes if each.plan is None)]


def faster_than_plan(answer: ClusterAnswer) -> str:
    """A sentence where another way takes a thousandth less time than the plan, which has the fewest words of grids."""
    times = {each.scheme.value: each.plan.seconds for each in answer.schemes if each.plan is not None}
    layouts = (("strips", answer.strips_times), ("patches", answer.patches_times))
    times |= {name: each.seconds for name, each in layouts if each is not None}
    seconds, name = min(((each, name) for name, each in times.items() if each is not None), default=(0.0, ""))
    share = seconds / answer.plan.seconds if answer.plan.seconds else 1.0
    return f"The plan is for few words; {name} takes {1 - share:.1%} less time." if share <= _FASTER else ""


def _note(plan: ClusterPlan) -> str:
    uneven = float(plan.imbalance)
    again = f"{plan.passes} passes" if plan.passes > 1 else ""
    return ", ".join(filter(None, [f"work {uneven:.3g} × the mean" if uneven > _UNEVEN else "", again]))


def memory_text(plan: ClusterPlan, words: int) -> str:
    """Words of a plan in bytes, for people."""
    return show_bytes(bytes_of(words, element_bytes=plan.workload.dtype.bytes))


def cluster_section(answer: ClusterAnswer) -> str:
    """The same as a table of a page."""
    plan, bound = answer.plan, answer.plan.bound_words_per_device
    head = "".join(f"<th>{title}</th>" for title in ("scheme", "grid", "sent (words)", "÷ bound", "time", "memory", ""))
    rows = []
    for name, each, note in scheme_rows(answer):
        if each is None:
            cells = [name, *[NOTHING] * 5, note]
        else:
            time = NOTHING if each.seconds is None else show_seconds(each.seconds)
            sent = f"{each.words_per_device:,}"
            cells = [name, str(each.grid), sent, show_gap(each), time, memory_text(each, each.memory_words), note]
        rows.append(cells)
    rows += [list(row) for row in layout_rows(answer)]
    body = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows]
    told = f"Words are those that the busiest device sends; it must send {bound:,}."
    told = f"{show_count(plan.cluster.devices, 'device')}. {told} {faster_than_plan(answer)}".rstrip()
    return f"<p>{told}</p>\n<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(body) + "\n</tbody></table>"
