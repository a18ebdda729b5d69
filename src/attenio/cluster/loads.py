"""The words that cross every level of a topology's links in a stage, and what its busiest port or link carries."""

from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid
from attenio.cluster.placement import POSITION, Axis, Placement
from attenio.cluster.topology import Topology
from attenio.cluster.words import Shares, Stage, halo_keys, stage_widths
from attenio.masks import SlidingWindow
from attenio.workload import Workload

Counts = NDArray[np.int64]
# Messages of one stage that are routed one by one over a torus; beyond, its links count as equally loaded.
_ROUTED = 2**15


class Load(NamedTuple):
    """What crosses one level of links in a stage.

    ``words`` are those that each rank sends over the level, in a torus times the links that they take.
    ``busiest_words`` and ``busiest_messages`` are the most that one port of a switch, or one link of a torus, carries.
    """

    words: Counts
    busiest_words: int
    busiest_messages: int


class Flows(NamedTuple):
    """Messages one by one: ranks that send, ranks that receive, and words."""

    sources: Counts
    targets: Counts
    words: Counts

    @classmethod
    def none(cls) -> "Flows":
        """No messages."""
        return cls(*np.zeros((3, 0), dtype=np.int64))


class Circles(NamedTuple):
    """The ranks of a stage in circles that talk among themselves, [circle, member]: ranks, devices, words a message."""

    ranks: Counts
    devices: Counts
    words: Counts


def stage_loads(
    workload: Workload, grid: Grid, stage: Stage, placement: Placement, topology: Topology
) -> tuple[Load, ...]:
    """What crosses every level of a topology in a stage.

    >>> from attenio.cluster.topology import topology_named
    >>> workload, grid = Workload(n=1024, d=64), Grid(queries=4, keys=4)
    >>> nodes = topology_named("dgx-h100:4x4")
    >>> [load.busiest_words for load in stage_loads(workload, grid, Stage.GATHER_KEYS, Placement(), nodes)]
    [0, 24576]
    """
    shares, devices = Shares.of(workload, grid), placement.devices(grid)
    if isinstance(workload.mask, SlidingWindow) and axis_of(stage) is Axis.QUERIES:
        return loads_of_flows(_window_flows(workload, grid, stage, shares), devices, topology)
    circles = _circles(workload, grid, stage, shares, devices)
    if not topology.is_torus:
        return _switched(circles, is_by_source(stage), topology)
    if circles.ranks.size * circles.ranks.shape[1] > _ROUTED:
        return _evenly(circles, is_by_source(stage), topology)
    return loads_of_flows(_flows(circles, is_by_source(stage)), devices, topology)


def loads_of_flows(flows: Flows, devices: Counts, topology: Topology) -> tuple[Load, ...]:
    """The same for any messages between ranks that sit on these devices."""
    return _routed(flows, devices, topology) if topology.is_torus else _by_level(flows, devices, topology)


def flows_of(workload: Workload, grid: Grid, stage: Stage) -> Flows:
    """Every message of a stage."""
    shares = Shares.of(workload, grid)
    if isinstance(workload.mask, SlidingWindow) and axis_of(stage) is Axis.QUERIES:
        return _window_flows(workload, grid, stage, shares)
    ranks = np.arange(grid.devices, dtype=np.int64)
    return _flows(_circles(workload, grid, stage, shares, ranks), is_by_source(stage))


def axis_of(stage: Stage) -> Axis:
    """Along which side of the grid a stage's messages go."""
    match stage:
        case Stage.SCATTER_HEADS | Stage.SCATTER_GRADIENTS | Stage.RETURN_HEADS:
            return Axis.HEADS
        case Stage.GATHER_QUERIES | Stage.REDUCE_OUTPUTS | Stage.REDUCE_QUERIES:
            return Axis.KEYS
        case Stage.GATHER_KEYS | Stage.REDUCE_KEYS:
            return Axis.QUERIES
        case _:
            assert_never(stage)


def is_by_source(stage: Stage) -> bool:
    """Whether a rank sends the same to all its peers; else each peer gets what belongs to it."""
    return stage in (Stage.SCATTER_HEADS, Stage.SCATTER_GRADIENTS, Stage.GATHER_QUERIES, Stage.GATHER_KEYS)


def _circles(workload: Workload, grid: Grid, stage: Stage, shares: Shares, devices: Counts) -> Circles:
    widths = stage_widths(workload, stage)
    row = workload.batch * (workload.heads // grid.heads) * widths.row
    key = workload.batch * (workload.kv_heads // grid.heads) * widths.key
    words = row * shares.queries + key * shares.keys
    axis = axis_of(stage)
    if axis is not Axis.HEADS:
        words = np.broadcast_to(words.sum(axis=2, keepdims=True), words.shape)
    shape, position = shares.queries.shape, POSITION[axis]
    arrays = (np.arange(grid.devices, dtype=np.int64).reshape(shape), devices.reshape(shape), words)
    return Circles(*(np.moveaxis(each, position, 2).reshape(-1, shape[position]) for each in arrays))


def _flows(circles: Circles, by_source: bool) -> Flows:
    """Messages in turns, in each of which every member sends one and receives one.

    With a power of two of members, those whose numbers differ in the same bits talk to each other, so that also the
    messages of one level of links alone do not wait for each other; else each sends to the next, then to the one after.
    """
    members = circles.ranks.shape[1]
    turn, source = np.divmod(np.arange(members * (members - 1), dtype=np.int64), max(members, 1))
    target = source ^ (turn + 1) if members & (members - 1) == 0 else (source + turn + 1) % members
    words = circles.words[:, source if by_source else target].T.reshape(-1)
    sources, targets = (circles.ranks[:, side].T.reshape(-1) for side in (source, target))
    some = words > 0
    return Flows(sources[some], targets[some], words[some])


def _window_flows(workload: Workload, grid: Grid, stage: Stage, shares: Shares) -> Flows:
    key = workload.batch * (workload.kv_heads // grid.heads) * stage_widths(workload, stage).key
    halo = halo_keys(workload, grid, shares)
    owners, users = np.nonzero(halo)
    words = np.repeat(key * halo[owners, users], grid.heads)
    some = words > 0
    group = np.tile(np.arange(grid.heads, dtype=np.int64), len(owners))
    owner, user = ((np.repeat(each, grid.heads) * grid.heads + group)[some] for each in (owners, users))
    return Flows(owner, user, words[some]) if stage is Stage.GATHER_KEYS else Flows(user, owner, words[some])


def _switched(circles: Circles, by_source: bool, topology: Topology) -> tuple[Load, ...]:
    """Words and messages between ranks of a circle, by the closest level that joins them."""
    count, members = circles.ranks.shape
    ranks, devices, words = (each.reshape(-1) for each in circles)
    circle = np.repeat(np.arange(count, dtype=np.int64), members)
    closer = np.zeros((3, ranks.size), dtype=np.int64)  # sent, received and messages over the levels before
    loads = []
    for size in topology.group_sizes:
        _, group = np.unique(circle * (int(devices.max()) + 1) + devices // size, return_inverse=True)
        peers = np.bincount(group)[group] - 1
        everyones = np.zeros(int(group.max()) + 1, dtype=np.int64)
        np.add.at(everyones, group, words)
        own, others = words * peers, everyones[group] - words
        within = np.stack([own, others, peers] if by_source else [others, own, peers])
        sent, received, messages = within - closer
        by_rank = np.empty_like(sent)
        by_rank[ranks] = sent
        messages = np.where(sent + received > 0, messages, 0)
        loads.append(Load(by_rank, int(max(sent.max(), received.max())), int(messages.max())))
        closer = within
    return tuple(loads)


def _by_level(flows: Flows, devices: Counts, topology: Topology) -> tuple[Load, ...]:
    level = np.full(len(flows.words), len(topology.links), dtype=np.int64)
    for index, size in reversed(list(enumerate(topology.group_sizes))):
        level[devices[flows.sources] // size == devices[flows.targets] // size] = index
    loads, ranks = [], len(devices)
    for index in range(len(topology.links)):
        sources, targets, words = (each[level == index] for each in flows)
        sent, received = (_summed(ends, words, ranks) for ends in (sources, targets))
        messages = [int(np.bincount(ends, minlength=1).max()) for ends in (sources, targets)]
        loads.append(Load(sent, int(max(sent.max(), received.max())), max(messages)))
    return tuple(loads)


def _summed(at: Counts, words: Counts, size: int) -> Counts:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, at, words)
    return total


def _routed(flows: Flows, devices: Counts, topology: Topology) -> tuple[Load, ...]:
    """Words on every link of a torus: along one axis after the other, the shorter way round."""
    here, there = devices[flows.sources], devices[flows.targets]
    loads, stride = [], 1
    for link in topology.links:
        size = link.devices
        start, stop = here // stride % size, there // stride % size
        step, hops = ways_round(start, stop, size)
        base = here - start * stride
        carried, messages = np.zeros((2, 2, topology.devices), dtype=np.int64)  # by direction and place
        for hop in range(int(hops.max(initial=0))):
            some = hops > hop
            place = (base + (start + hop * step) % size * stride)[some]
            direction = (step[some] < 0).astype(np.int64)
            np.add.at(carried, (direction, place), flows.words[some])
            np.add.at(messages, (direction, place), 1)
        sent = _summed(flows.sources, flows.words * hops, len(devices))
        loads.append(Load(sent, int(carried.max()), int(messages.max())))
        here = base + stop * stride
        stride *= size
    return tuple(loads)


def ways_round(start: Counts, stop: Counts, size: int) -> tuple[Counts, Counts]:
    """Which way round a ring is shorter, 1 or -1, and how many links that takes; ties go ahead from even places."""
    ahead = (stop - start) % size
    forward = (2 * ahead < size) | ((2 * ahead == size) & (start % 2 == 0))
    return np.where(forward, 1, -1), np.where(forward, ahead, (size - ahead) % size)


def _evenly(circles: Circles, by_source: bool, topology: Topology) -> tuple[Load, ...]:
    """The same where messages are too many to route one by one: all links of an axis carry the mean."""
    count, members = circles.ranks.shape
    stride, loads = 1, []
    at_once = max(1, _ROUTED // members**2)
    for link in topology.links:
        sent, messages = np.zeros(circles.ranks.size, dtype=np.int64), 0
        for first in range(0, count, at_once):
            ranks, devices, words = (each[first : first + at_once] for each in circles)
            at = (devices // stride % link.devices).astype(np.int32)
            apart = np.abs(at[:, :, None] - at[:, None])
            hops = np.minimum(apart, link.devices - apart)
            sent[ranks] = words * hops.sum(axis=2) if by_source else (hops @ words[:, :, None])[:, :, 0]
            messages += int(hops.sum())
        links = 2 * circles.ranks.size
        loads.append(Load(sent, -(-int(sent.sum()) // links), -(-messages // links)))
        stride *= link.devices
    return tuple(loads)
