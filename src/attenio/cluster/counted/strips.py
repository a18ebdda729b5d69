"""A layout in strips on counted memories and a counted network, all ranks in step.

forward   gather queries and keys; one softmax over the keys of the part; partial outputs home, merged there
backward  gather queries, dO, D, log-sum-exps and keys; dQ, dK and dV of the part; sums home, added there
"""

from contextlib import ExitStack

import numpy as np

from attenio.cluster.counted.device import Values
from attenio.cluster.counted.forward import added, normalised
from attenio.cluster.counted.network import Network
from attenio.cluster.counted.owners import CountedRank, RunOfOwners, positions
from attenio.cluster.counted.run import Arrays, ClusterRun
from attenio.cluster.spans import Tokens
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.messages import Messages
from attenio.cluster.strips.words import check_workload, traffic
from attenio.cluster.words import Stage
from attenio.memory import FastMemory
from attenio.workload import Direction, Workload


def execute_strips(
    workload: Workload, strips: Strips, inputs: Arrays, *, memory_words: int | None = None
) -> ClusterRun:
    """Run attention, its gradients or a training step over the ranks of a layout in strips."""
    check_workload(workload, strips)
    network, room = Network(strips.devices), 2**50 if memory_words is None else memory_words
    rows, keys = workload.heads // strips.heads, workload.kv_heads // strips.heads
    with ExitStack() as every:
        ranks = []
        for rank in range(strips.devices):
            group = rank % strips.heads
            memory = FastMemory(room, intermediate_words=workload.accumulator_words)
            ranks.append(
                CountedRank(
                    workload=workload, memory=memory, stack=every.enter_context(ExitStack()),
                    heads=slice(group * rows, (group + 1) * rows), kv_heads=slice(group * keys, (group + 1) * keys),
                )
            )  # fmt: skip
        run = _Run(workload, strips, ranks, network)
        results = run.all(inputs)
    return ClusterRun(network=network, peak_words=tuple(rank.memory.peak_words for rank in ranks), results=results)


class _Run(RunOfOwners):
    """All ranks of a run in strips."""

    def __init__(self, workload: Workload, strips: Strips, ranks: list[CountedRank], network: Network) -> None:
        super().__init__(workload, strips.homes(workload.keys), ranks, network)
        self.strips = strips

    def messages(self, direction: Direction) -> Messages:
        relays = traffic(self.work.towards(direction), self.strips).relays
        return Messages(strips=self.strips, tokens=self.work.keys, relays=relays)

    def gather(self, messages: Messages, names: tuple[str, ...], stacks: list[ExitStack]) -> None:
        """Rows and keys of every rank's part, its own among them."""
        for target, (rank, stack) in enumerate(zip(self.ranks, stacks, strict=True)):
            mine = messages.product(target)
            for name in (*names, "KV"):
                rows = name != "KV"
                held, heads = (mine.rows, rank.heads) if rows else (mine.keys, rank.kv_heads)
                sums, own = name in ("D", "lse"), rank.arrays[name][:, heads]
                into = rank.room(f"part {name}", (own.shape[1], len(held), own.shape[3]), stack, sums=sums)
                place = messages.homes[target].both(held)
                into[:, :, at(held, place)] = own[:, :, at(messages.homes[target], place)]
                for source in range(len(self.ranks)):
                    some = (messages.rows if rows else messages.keys_first)(source, target)
                    self.copy(source, target, (name, heads, messages.homes[source]), (some, held), sums=sums)
        for target in range(len(self.ranks)):
            held = messages.product(target).keys
            for source in range(len(self.ranks)):
                some = messages.keys_second(source, target)
                self.copy(source, target, ("part KV", slice(None), messages.product(source).keys), (some, held))

    def copy(
        self,
        source: int,
        target: int,
        there: tuple[str, slice, Tokens],
        here: tuple[Tokens, Tokens],
        *,
        sums: bool = False,
    ) -> None:
        """Send some tokens of an array of one rank into another's part."""
        (name, heads, holds), (some, held) = there, here
        if not len(some):
            return
        values = self.ranks[source].arrays[name][:, heads][:, :, at(holds, some)]
        into = np.empty_like(values)
        stage = Stage.GATHER_KEYS if name.endswith("KV") else Stage.GATHER_QUERIES
        each = self.work.accumulator_words if sums else 1
        self.network.send(stage, (source, target), values, into, words_each=each)
        self.ranks[target].arrays[f"part {name.removeprefix('part ')}"][:, :, at(held, some)] = into

    def forward(self) -> None:
        work, messages = self.work, self.messages(Direction.FORWARD)
        with ExitStack() as every:
            states, parts = ([every.enter_context(ExitStack()) for _ in self.ranks] for _ in range(2))
            for index, (rank, stack) in enumerate(zip(self.ranks, states, strict=True)):
                rows = len(messages.product(index).rows)
                shape = (work.heads // self.strips.heads, rows, work.value_dim + 2)
                rank.room("state", shape, stack, sums=True)
            self.gather(messages, ("Q",), parts)
            for index, rank in enumerate(self.ranks):
                attend(work, rank.arrays, seen(messages, index))
            for stack in parts:
                stack.close()
            for index, stack in enumerate(states):
                self.merge(messages, index, stack)

    def merge(self, messages: Messages, home: int, stack: ExitStack) -> None:
        """Partial outputs to their home, where they are added up."""
        work, rank, own = self.work, self.ranks[home], messages.homes[home]
        merged = rank.room("merged", (work.heads, len(own), work.value_dim + 1), stack, sums=True)
        merged[..., :-1], merged[..., -1] = 0.0, -np.inf
        others = [other for other in range(len(self.ranks)) if len(messages.rows(home, other))]
        shape = (work.heads // self.strips.heads, len(own), work.value_dim + 1)
        arriving = rank.room("arriving", shape, stack, sums=True)
        for source in (home, *others):
            there, product = self.ranks[source], messages.product(source)
            some = own.both(product.rows)
            out, lse = normalised(there.arrays["state"][:, :, at(product.rows, some)])
            partial = np.concatenate([out, lse[..., None]], axis=-1)
            into = arriving[:, :, : len(some)] if source != home else np.empty_like(partial)
            each = work.accumulator_words
            self.network.send(Stage.REDUCE_OUTPUTS, (source, home), partial, into, words_each=each)
            place = (slice(None), there.heads, at(own, some))
            before = merged[:, there.heads][:, :, at(own, some)]
            whole, total = added(before[..., :-1], before[..., -1], into[..., :-1], into[..., -1])
            merged[place] = np.concatenate([whole, total[..., None]], axis=-1)
        rank.arrays["O"][...] = merged[..., :-1]
        if work.is_training:
            rank.arrays["lse"][...] = merged[..., -1:]

    def backward(self) -> None:
        work, messages = self.work, self.messages(Direction.BACKWARD)
        rows, keys = work.heads // self.strips.heads, work.kv_heads // self.strips.heads
        with ExitStack() as every:
            states, parts = ([every.enter_context(ExitStack()) for _ in self.ranks] for _ in range(2))
            for index, (rank, stack) in enumerate(zip(self.ranks, states, strict=True)):
                product = messages.product(index)
                rank.room("sums of dQ", (rows, len(product.rows), work.d), stack, sums=True)
                rank.room("sums of dKV", (keys, len(product.keys), work.key_words), stack, sums=True)
            self.gather(messages, ("Q", "dO", "D", "lse"), parts)
            for index, rank in enumerate(self.ranks):
                differentiate(work, rank.arrays, seen(messages, index))
            for stack in parts:
                stack.close()
            for index, stack in enumerate(states):
                self.add_up(messages, index, stack)

    def add_up(self, messages: Messages, home: int, stack: ExitStack) -> None:
        """Gradients to their home."""
        work, rank, own, wide = self.work, self.ranks[home], messages.homes[home], self.work.accumulator_words
        everyone = range(len(self.ranks))
        rows, keys = work.heads // self.strips.heads * work.d, work.kv_heads // self.strips.heads * work.key_words
        rank.room("arriving", (1, len(own), max(rows, keys)), stack, sums=True)
        for name, stage in (("dQ", Stage.REDUCE_QUERIES), ("dKV", Stage.REDUCE_KEYS)):
            whole = rank.room(f"whole {name}", rank.arrays[name].shape[1:], stack, sums=True)
            whole[...] = 0.0
            for source in (home, *(other for other in everyone if other != home)):
                there, product = self.ranks[source], messages.product(source)
                held, heads = (product.rows, there.heads) if name == "dQ" else (product.keys, there.kv_heads)
                some = own.both(held)
                if len(some):
                    values = there.arrays[f"sums of {name}"][:, :, at(held, some)]
                    into = np.empty_like(values)
                    self.network.send(stage, (source, home), values, into, words_each=wide)
                    whole[:, heads, at(own, some)] += into
            rank.arrays[name][...] = whole


def at(held: Tokens, some: Tokens) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Where some tokens lie among those that are held."""
    return np.searchsorted(positions(held), positions(some)).astype(np.int64)


def seen(messages: Messages, rank: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """Which pairs of a rank's part the mask requires."""
    product = messages.product(rank)
    return np.asarray(positions(product.keys)[None] <= positions(product.rows)[:, None])


def attend(
    work: Workload, arrays: dict[str, Values], visible: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
) -> None:
    """Sums of outputs, maxima and sums of a part."""
    q, both = arrays["part Q"], arrays["part KV"]
    k, v = (np.repeat(each, work.group, axis=1) for each in (both[..., : work.d], both[..., work.d :]))
    scores = np.where(visible, np.float32(work.softmax_scale) * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    top = scores.max(axis=-1, initial=-np.inf)
    p = np.exp(scores - np.where(np.isfinite(top), top, np.float32(0.0))[..., None])
    state = arrays["state"]
    state[..., :-2], state[..., -1], state[..., -2] = p @ v, p.sum(axis=-1), top


def differentiate(
    work: Workload, arrays: dict[str, Values], visible: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
) -> None:
    """Sums of dQ, dK and dV of a part."""
    q, do, products, lse = (arrays[f"part {name}"] for name in ("Q", "dO", "D", "lse"))
    both = arrays["part KV"]
    k, v = (np.repeat(each, work.group, axis=1) for each in (both[..., : work.d], both[..., work.d :]))
    scale = np.float32(work.softmax_scale)
    scores = np.where(visible, scale * (q @ k.transpose(0, 1, 3, 2)), np.float32(-np.inf))
    p = np.exp(scores - np.where(np.isfinite(lse), lse, np.float32(0.0)))
    ds = p * (do @ v.transpose(0, 1, 3, 2) - products) * scale
    arrays["sums of dQ"][...] = ds @ k
    grads = np.concatenate([ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ do], axis=-1)
    batch, heads, keys, width = both.shape
    arrays["sums of dKV"][...] = grads.reshape(batch, heads, work.group, keys, width).sum(axis=2)
