"""A discrete-event simulation of links: a second witness of the time of a plan.

The planner divides the words of the busiest port by its rate. Here every message waits for its ports or links, event
by event. Between switches a message takes the send port of its source and the receive port of its target, of the level
that joins them, until its bytes are through; ports of different levels work side by side. In a torus it is cut into
pieces, each of which takes one link of its way after the other. Keys that have arrived are worked on at once, one lot
after the other; their sums go back over the same ports when these are free.

>>> from attenio.cluster.topology import ethernet
>>> link = ethernet(3)
>>> flows = Flows(np.array([0, 1]), np.array([2, 2]), np.array([625_000, 625_000]))
>>> [round(1e6 * float(t)) for t in arrivals(flows, np.arange(3), link, element_bytes=2)]
[120, 240]
"""

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.loads import Flows, flows_of, ways_round
from attenio.cluster.plan import REPEATED, ClusterPlan
from attenio.cluster.topology import Topology
from attenio.cluster.words import Stage
from attenio.errors import InvalidInput
from attenio.quantities import bytes_of
from attenio.workload import Direction

Seconds = NDArray[np.float64]
# Messages of one stage that are simulated; more take minutes.
MOST_MESSAGES = 400_000
# Pieces of a message in a torus: links of its way work on different ones at a time.
_PIECES = 8


@dataclass(frozen=True, kw_only=True)
class SimulatedStage:
    """A stage of a pass, and when its last message is through."""

    direction: Direction
    stage: Stage
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The simulated time of a plan: stages one after the other, with keys worked on as they arrive."""

    stages: tuple[SimulatedStage, ...]
    seconds: float


def simulate(plan: ClusterPlan) -> Simulation:
    """Simulate every stage of a plan on its topology."""
    topology = plan.cluster.topology
    if topology is None:
        raise InvalidInput("links are simulated on a topology; give one, such as dgx-h100:8x8")
    stages, total = [], 0.0
    for direction in dict.fromkeys(stage.direction for stage in plan.stages):
        workload = plan.workload.towards(direction)
        compute = 0.0 if plan.compute_seconds is None else plan.compute_seconds * workload.flops / plan.workload.flops
        behind = gathered = 0.0
        for timed in (each for each in plan.stages if each.direction is direction):
            flows = _one_circle(flows_of(workload, plan.grid, timed.stage), topology)
            if len(flows.words) > MOST_MESSAGES:
                raise InvalidInput(
                    f"{timed.stage.value} has {len(flows.words):,} messages; at most {MOST_MESSAGES:,} are simulated"
                )
            times = arrivals(flows, plan.placement.devices(plan.grid), topology, element_bytes=workload.dtype.bytes)
            repeats = plan.passes if timed.stage in REPEATED else 1
            seconds = repeats * float(times.max(initial=0.0))
            stages.append(SimulatedStage(direction=direction, stage=timed.stage, seconds=seconds))
            if timed.stage is Stage.GATHER_KEYS:
                gathered = seconds
                behind = repeats * _worked_on(flows, times, compute / repeats, plan.grid.queries)
            elif timed.stage is Stage.REDUCE_KEYS:
                behind = max(behind, gathered + seconds)
            else:
                total += seconds
        total += behind
    return Simulation(stages=tuple(stages), seconds=total)


def _one_circle(flows: Flows, topology: Topology) -> Flows:
    """Between switches circles do not share ports: that of the rank that sends most stands for all of a large stage."""
    if topology.is_torus or len(flows.words) <= MOST_MESSAGES // 8:
        return flows
    busiest = int(flows.sources[int(flows.words.argmax())])
    circle = np.union1d(flows.targets[flows.sources == busiest], [busiest])
    some = np.isin(flows.sources, circle) & np.isin(flows.targets, circle)
    return Flows(*(each[some] for each in flows))


def _worked_on(flows: Flows, times: Seconds, compute: float, lots: int) -> float:
    """When the last lot of keys has been worked on: the own ones first, then each as it arrives."""
    latest = compute / max(lots, 1)
    by_rank: dict[int, list[float]] = defaultdict(list)
    for target, time in zip(flows.targets.tolist(), times.tolist(), strict=True):
        by_rank[target].append(time)
    for arrived in by_rank.values():
        done, lot = compute / lots, compute / max(lots, 1)
        for time in sorted(arrived):
            done = max(done, time) + lot
        latest = max(latest, done)
    return latest if by_rank else compute


def arrivals(flows: Flows, devices: NDArray[np.int64], topology: Topology, *, element_bytes: int) -> Seconds:
    """When every message of a stage has arrived, all being ready at the start, in the order given."""
    return (_routed if topology.is_torus else _switched)(flows, devices, topology, element_bytes)


def _switched(flows: Flows, devices: NDArray[np.int64], topology: Topology, element_bytes: int) -> Seconds:
    here, there = devices[flows.sources], devices[flows.targets]
    level = np.zeros(len(flows.words), dtype=np.int64)
    for size in topology.group_sizes[:-1]:
        level += here // size != there // size
    rates = np.array([link.bandwidth_bytes_per_s for link in topology.links])
    latencies = np.array([link.latency_s for link in topology.links])
    takes = (latencies[level] + flows.words * element_bytes / rates[level]).tolist()
    senders = list(zip(level.tolist(), here.tolist(), strict=True))
    receivers = list(zip(level.tolist(), there.tolist(), strict=True))
    waiting: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    for message, sender in enumerate(senders):
        waiting[sender].append(message)
    at_door: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    busy: set[tuple[int, int]] = set()
    arrived = np.zeros(len(takes))
    events: list[tuple[float, int]] = []

    def begin(message: int, now: float) -> None:
        busy.add(receivers[message])
        heapq.heappush(events, (now + takes[message], message))

    def offer(sender: tuple[int, int], now: float) -> None:
        if waiting[sender]:
            message = waiting[sender].popleft()
            if receivers[message] in busy:
                at_door[receivers[message]].append(message)
            else:
                begin(message, now)

    for sender in list(waiting):
        offer(sender, 0.0)
    while events:
        now, message = heapq.heappop(events)
        arrived[message] = now
        receiver = receivers[message]
        busy.discard(receiver)
        if at_door[receiver]:
            begin(at_door[receiver].popleft(), now)
        offer(senders[message], now)
    return arrived


def _routed(flows: Flows, devices: NDArray[np.int64], topology: Topology, element_bytes: int) -> Seconds:
    ways = _ways(flows, devices, topology)
    queues: dict[tuple[int, int, int], deque[tuple[int, int, int]]] = defaultdict(deque)
    busy: set[tuple[int, int, int]] = set()
    arrived, order = np.zeros(len(flows.words)), count()
    events: list[tuple[float, int, tuple[int, int, int]]] = []
    sizes = bytes_of(1, element_bytes=element_bytes) * flows.words / _PIECES

    def begin(link: tuple[int, int, int], now: float) -> None:
        if link in busy or not queues[link]:
            return
        piece = queues[link].popleft()
        busy.add(link)
        level = topology.links[link[0]]
        latency = level.latency_s if piece[1] == 0 else 0.0
        takes = latency + sizes[piece[0]] / level.bandwidth_bytes_per_s
        heapq.heappush(events, (now + takes, next(order), piece))

    for message, way in enumerate(ways):
        for piece in range(_PIECES):
            queues[way[0]].append((message, piece, 0))
    for link in list(queues):
        begin(link, 0.0)
    while events:
        now, _, (message, piece, hop) = heapq.heappop(events)
        link = ways[message][hop]
        busy.discard(link)
        if hop + 1 < len(ways[message]):
            following = ways[message][hop + 1]
            queues[following].append((message, piece, hop + 1))
            begin(following, now)
        else:
            arrived[message] = max(arrived[message], now)
        begin(link, now)
    return arrived


def _ways(flows: Flows, devices: NDArray[np.int64], topology: Topology) -> list[list[tuple[int, int, int]]]:
    """The links of every message: axis, place that it leaves, direction."""
    ways: list[list[tuple[int, int, int]]] = [[] for _ in flows.words]
    here, there, stride = devices[flows.sources], devices[flows.targets], 1
    for axis, link in enumerate(topology.links):
        size = link.devices
        start, stop = here // stride % size, there // stride % size
        step, hops = ways_round(start, stop, size)
        base = here - start * stride
        for message in range(len(ways)):
            for hop in range(int(hops[message])):
                place = base[message] + (start[message] + hop * step[message]) % size * stride
                ways[message].append((axis, int(place), int(step[message])))
        here = base + stop * stride
        stride *= size
    return ways
