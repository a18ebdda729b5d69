"""Strips and patchworks on counted memories: every word that ranks send goes over a counted network, head by head.

Ranks own tokens with all heads. For each head group they get the rows and keys of their part, compute the pairs that
the layout gives them, and send what they found home.
"""

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from attenio.cluster.counted.forward import added, normalised
from attenio.cluster.counted.network import Network
from attenio.cluster.counted.owners import CountedRank, RunOfOwners, positions
from attenio.cluster.counted.part import attend, differentiate
from attenio.cluster.counted.run import Arrays, ClusterRun
from attenio.cluster.layout import ByHead, Messages
from attenio.cluster.layouts import check_workload, messages_of
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.words import Stage
from attenio.memory import FastMemory
from attenio.workload import Direction, Workload


def execute_layout(
    workload: Workload, layout: Strips | Patchwork, inputs: Arrays, *, memory_words: int | None = None
) -> ClusterRun:
    """Run attention, its gradients or a training step over the ranks of a layout."""
    check_workload(workload, layout)
    network, room = Network(layout.devices), 2**50 if memory_words is None else memory_words
    with ExitStack() as every:
        ranks = [
            CountedRank(
                workload=workload, memory=FastMemory(room, intermediate_words=workload.accumulator_words),
                stack=every.enter_context(ExitStack()),
            )
            for _ in range(layout.devices)
        ]  # fmt: skip
        results = _Run(workload, layout, ranks, network).all(inputs)
    return ClusterRun(network=network, peak_words=tuple(rank.memory.peak_words for rank in ranks), results=results)


class _Run(RunOfOwners):
    """All ranks of a layout."""

    def __init__(
        self, workload: Workload, layout: Strips | Patchwork, ranks: list[CountedRank], network: Network
    ) -> None:
        super().__init__(workload, layout.homes(workload.keys), ranks, network)
        self.layout = layout
        self.of_q, self.of_kv = workload.heads // layout.heads, workload.kv_heads // layout.heads

    def messages(self, direction: Direction) -> Messages:
        return messages_of(self.work.towards(direction), self.layout)

    def heads_of(self, name: str, head: int) -> slice:
        count = self.of_kv if name.endswith("KV") else self.of_q
        return slice(head * count, (head + 1) * count)

    def gather(self, messages: Messages, names: tuple[str, ...], stacks: list[ExitStack]) -> None:
        """Rows and keys of every rank's part, its own among them."""
        everyone = range(len(self.ranks))
        for target, (rank, stack) in enumerate(zip(self.ranks, stacks, strict=True)):
            own = messages.homes[target]
            for head, mine in enumerate(messages.held(target)):
                for name in (*names, "KV") if len(mine.rows) else ():
                    held = mine.keys if name == "KV" else mine.rows
                    here = rank.arrays[name][:, self.heads_of(name, head)]
                    shape = (here.shape[1], len(held), here.shape[3])
                    into = rank.room(f"part {name} {head}", shape, stack, sums=name in ("D", "lse"))
                    both = own.both(held)
                    into[:, :, at(held, both)] = here[:, :, at(own, both)]
        for target in everyone:
            for source in everyone:
                keys, rows = messages.keys_first(source, target), messages.rows_first(source, target)
                for name in (*names, "KV"):
                    self.copy(name, (source, target), keys if name == "KV" else rows, messages, second=False)
        for target in everyone:
            for source in everyone:
                keys, rows = messages.keys_second(source, target), messages.rows_second(source, target)
                for name in (*names, "KV"):
                    self.copy(name, (source, target), keys if name == "KV" else rows, messages, second=True)

    def copy(self, name: str, ends: tuple[int, int], sent: ByHead, messages: Messages, *, second: bool) -> None:
        """Send some tokens of every head from one rank into another's part."""
        source, target = ends
        for head, some in enumerate(sent):
            if not len(some):
                continue
            mine = messages.held(target)[head]
            held = mine.keys if name == "KV" else mine.rows
            if second:
                has, array = messages.held(source)[head], self.ranks[source].arrays[f"part {name} {head}"]
                theirs = has.keys if name == "KV" else has.rows
            else:
                theirs = messages.homes[source]
                array = self.ranks[source].arrays[name][:, self.heads_of(name, head)]
            values = array[:, :, at(theirs, some)]
            into = np.empty_like(values)
            stage = Stage.GATHER_KEYS if name == "KV" else Stage.GATHER_QUERIES
            each = self.work.accumulator_words if name in ("D", "lse") else 1
            self.network.send(stage, ends, values, into, words_each=each)
            self.ranks[target].arrays[f"part {name} {head}"][:, :, at(held, some)] = into

    def compute(self, run: Callable[..., None], messages: Messages, names: tuple[str, ...]) -> None:
        """The pairs that every rank computes of every head, from its arrays of these names."""
        for index, rank in enumerate(self.ranks):
            for head, mine in enumerate(messages.held(index)):
                if len(mine.rows):
                    arrays = {name: rank.arrays[f"{name} {head}"] for name in names}
                    run(self.work, arrays, self.visible(messages, index, head))

    def visible(self, messages: Messages, index: int, head: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        """Which pairs of a rank's rows and keys of a head are its own to compute."""
        mine = messages.held(index)[head]
        rows, keys = positions(mine.rows)[:, None], positions(mine.keys)[None]
        own = np.zeros((rows.size, keys.size), dtype=np.bool_)
        for (first, stop), (start, end) in self.layout.cells(self.work.keys, index, head):
            own |= (rows >= first) & (rows < stop) & (keys >= start) & (keys < end)
        return own & (keys <= rows)

    def forward(self) -> None:
        work, messages = self.work, self.messages(Direction.FORWARD)
        with ExitStack() as every:
            states, parts = ([every.enter_context(ExitStack()) for _ in self.ranks] for _ in range(2))
            for index, (rank, stack) in enumerate(zip(self.ranks, states, strict=True)):
                for head, mine in enumerate(messages.held(index)):
                    if len(mine.rows):
                        shape = (self.of_q, len(mine.rows), work.value_dim + 2)
                        rank.room(f"state {head}", shape, stack, sums=True)
            self.gather(messages, ("Q",), parts)
            self.compute(attend, messages, ("part Q", "part KV", "state"))
            for stack in parts:
                stack.close()
            room, _ = self.layout.longest_messages(work.keys)
            for index, stack in enumerate(states):
                self.merge(messages, index, stack, int(room[index]))

    def merge(self, messages: Messages, home: int, stack: ExitStack, room: int) -> None:
        """Partial outputs to their home, where they are added up."""
        work, rank, own = self.work, self.ranks[home], messages.homes[home]
        merged = rank.room("merged", (work.heads, len(own), work.value_dim + 1), stack, sums=True)
        merged[..., :-1], merged[..., -1] = 0.0, -np.inf
        if room:
            rank.room("arriving", (self.of_q, room, work.value_dim + 1), stack, sums=True)
        for source in range(len(self.ranks)):
            for head, mine in enumerate(messages.held(source)):
                some = own.both(mine.rows)
                if not len(some):
                    continue
                state = self.ranks[source].arrays[f"state {head}"]
                out, lse = normalised(state[:, :, at(mine.rows, some)])
                partial = np.concatenate([out, lse[..., None]], axis=-1)
                into = np.empty_like(partial)
                each = work.accumulator_words
                self.network.send(Stage.REDUCE_OUTPUTS, (source, home), partial, into, words_each=each)
                heads = self.heads_of("Q", head)
                before = merged[:, heads][:, :, at(own, some)]
                whole, total = added(before[..., :-1], before[..., -1], into[..., :-1], into[..., -1])
                merged[:, heads, at(own, some)] = np.concatenate([whole, total[..., None]], axis=-1)
        rank.arrays["O"][...] = merged[..., :-1]
        if work.is_training:
            rank.arrays["lse"][...] = merged[..., -1:]

    def backward(self) -> None:
        work, messages = self.work, self.messages(Direction.BACKWARD)
        with ExitStack() as every:
            states, parts = ([every.enter_context(ExitStack()) for _ in self.ranks] for _ in range(2))
            for index, (rank, stack) in enumerate(zip(self.ranks, states, strict=True)):
                for head, mine in enumerate(messages.held(index)):
                    if len(mine.rows):
                        rank.room(f"sums of dQ {head}", (self.of_q, len(mine.rows), work.d), stack, sums=True)
                        shape = (self.of_kv, len(mine.keys), work.key_words)
                        rank.room(f"sums of dKV {head}", shape, stack, sums=True)
            self.gather(messages, ("Q", "dO", "D", "lse"), parts)
            read = (f"part {each}" for each in ("Q", "dO", "D", "lse", "KV"))
            self.compute(differentiate, messages, ("sums of dQ", "sums of dKV", *read))
            for stack in parts:
                stack.close()
            rooms = self.layout.longest_messages(work.keys)
            for index, stack in enumerate(states):
                words = max(
                    int(rooms[0][index]) * self.of_q * work.d, int(rooms[1][index]) * self.of_kv * work.key_words
                )
                self.add_up(messages, index, stack, words)

    def add_up(self, messages: Messages, home: int, stack: ExitStack, room: int) -> None:
        """Gradients to their home."""
        rank, own, wide = self.ranks[home], messages.homes[home], self.work.accumulator_words
        if room:
            rank.room("arriving", (1, 1, room), stack, sums=True)
        for name, stage in (("dQ", Stage.REDUCE_QUERIES), ("dKV", Stage.REDUCE_KEYS)):
            whole = rank.room(f"whole {name}", rank.arrays[name].shape[1:], stack, sums=True)
            whole[...] = 0.0
            for source in range(len(self.ranks)):
                for head, mine in enumerate(messages.held(source)):
                    held = mine.rows if name == "dQ" else mine.keys
                    some = own.both(held)
                    if len(some):
                        values = self.ranks[source].arrays[f"sums of {name} {head}"][:, :, at(held, some)]
                        into = np.empty_like(values)
                        self.network.send(stage, (source, home), values, into, words_each=wide)
                        whole[:, self.heads_of(name, head), at(own, some)] += into
            rank.arrays[name][...] = whole


def at(held: Tokens, some: Tokens) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Where some tokens lie among those that are held."""
    return np.searchsorted(positions(held), positions(some)).astype(np.int64)
