"""What strips or a patchwork take on a topology: words and seconds by level of links, planned and simulated.

A rank waits for its rows and for the keys that come from their homes, computes with these while others are passed on,
and sends what it found home. So only keys that are passed on come in behind the arithmetic.
"""

from dataclasses import dataclass

import numpy as np

from attenio.cluster.events import MOST_MESSAGES, SimulatedStage, Simulation, arrivals
from attenio.cluster.flows import Round
from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.loads import loads_of_flows
from attenio.cluster.patches.flows import rounds as patches_rounds
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.plan import Cluster, LevelWords, StageTime
from attenio.cluster.strips.flows import rounds as strips_rounds
from attenio.cluster.strips.layout import Strips
from attenio.cluster.topology import Topology
from attenio.errors import InvalidInput
from attenio.quantities import bytes_of
from attenio.workload import Direction

# Devices up to which the messages are looked at one by one.
MOST_TIMED = 1024


@dataclass(frozen=True, kw_only=True)
class LayoutTimes:
    """Stages and levels of a plan; rank p sits on device p."""

    levels: tuple[LevelWords, ...]
    stages: tuple[StageTime, ...]
    compute_seconds: float | None
    seconds: float

    @property
    def exchange_seconds(self) -> float:
        """Seconds of all stages one after the other."""
        return sum(each.seconds or 0.0 for each in self.stages)


def rounds(plan: LayoutPlan) -> tuple[Round, ...]:
    """The messages of a plan, round by round."""
    layout = plan.layout
    if isinstance(layout, Strips):
        return strips_rounds(plan.workload, layout)
    assert isinstance(layout, Patchwork)
    return patches_rounds(plan.workload, layout)


def layout_times(plan: LayoutPlan, cluster: Cluster) -> LayoutTimes | None:
    """What the plan takes on a cluster; None without a topology, or for too many devices."""
    topology, work = cluster.topology, plan.workload
    if topology is None or plan.layout.devices > MOST_TIMED:
        return None
    devices = np.arange(plan.layout.devices, dtype=np.int64)
    sent = np.zeros((len(topology.links), len(devices)), dtype=np.int64)
    taken, stages = [0.0] * len(topology.links), []
    for one in rounds(plan):
        slowest, words = 0.0, np.zeros(len(devices), dtype=np.int64)
        np.add.at(words, one.flows.sources, one.flows.words)
        for index, load in enumerate(loads_of_flows(one.flows, devices, topology)):
            link = topology.links[index]
            moving = bytes_of(load.busiest_words, element_bytes=work.dtype.bytes) / link.bandwidth_bytes_per_s
            seconds = moving + load.busiest_messages * link.latency_s
            sent[index] += load.words
            taken[index] += seconds
            slowest = max(slowest, seconds)
        stages.append(
            StageTime(
                direction=one.direction, stage=one.stage, words_per_device=int(words.max(initial=0)), seconds=slowest,
                overlaps_compute=one.overlaps_compute,
            )
        )  # fmt: skip
    levels = tuple(
        LevelWords(name=link.name, words_per_device=int(each.max()), total_words=int(each.sum()), seconds=seconds)
        for link, each, seconds in zip(topology.links, sent, taken, strict=True)
    )
    compute = _compute_seconds(plan, cluster)
    in_turn = [(each.direction, each.seconds or 0.0, each.overlaps_compute) for each in stages]
    return LayoutTimes(
        levels=levels, stages=tuple(stages), compute_seconds=compute, seconds=_together(plan, compute, in_turn)
    )


def simulate_layout(plan: LayoutPlan, cluster: Cluster) -> Simulation:
    """The same by a simulation of every message on the links."""
    topology = cluster.topology
    if topology is None:
        raise InvalidInput("links are simulated on a topology; give one, such as dgx-h100:8x8")
    found = [(one, _simulated(plan, one, topology)) for one in rounds(plan)]
    stages = tuple(SimulatedStage(direction=one.direction, stage=one.stage, seconds=each) for one, each in found)
    in_turn = [(one.direction, each, one.overlaps_compute) for one, each in found]
    return Simulation(stages=stages, seconds=_together(plan, _compute_seconds(plan, cluster), in_turn))


def _simulated(plan: LayoutPlan, one: Round, topology: Topology) -> float:
    if len(one.flows.words) > MOST_MESSAGES:
        raise InvalidInput(
            f"{one.stage.value} has {len(one.flows.words):,} messages; at most {MOST_MESSAGES:,} are simulated"
        )
    devices = np.arange(plan.layout.devices, dtype=np.int64)
    return float(arrivals(one.flows, devices, topology, element_bytes=plan.workload.dtype.bytes).max(initial=0.0))


def _together(plan: LayoutPlan, compute: float | None, in_turn: list[tuple[Direction, float, bool]]) -> float:
    """Seconds of all passes, with what overlaps behind the arithmetic of its pass."""
    total = 0.0
    for direction in dict.fromkeys(each[0] for each in in_turn):
        hidden = sum(seconds for of, seconds, overlaps in in_turn if of is direction and overlaps)
        shown = sum(seconds for of, seconds, overlaps in in_turn if of is direction and not overlaps)
        work = plan.workload.towards(direction)
        total += shown + max(hidden, (compute or 0.0) * work.flops / plan.workload.flops)
    return total


def _compute_seconds(plan: LayoutPlan, cluster: Cluster) -> float | None:
    rate = None if cluster.machine is None else cluster.machine.flops_per_s.get(plan.workload.dtype)
    return None if rate is None else plan.workload.flops * float(plan.imbalance) / (plan.layout.devices * rate)
