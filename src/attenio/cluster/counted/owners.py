"""What counted runs of causal layouts share: ranks own tokens with all heads, and results are collected from there."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from attenio.cluster.counted.device import Values
from attenio.cluster.counted.network import Network
from attenio.cluster.counted.run import Arrays, log_sum_exps, outputs
from attenio.cluster.spans import Tokens
from attenio.memory import FastMemory
from attenio.workload import Direction, Workload


@dataclass(kw_only=True)
class CountedRank:
    """A rank with its memory; ``arrays`` are (batch, heads, tokens, width)."""

    workload: Workload
    memory: FastMemory
    stack: ExitStack
    arrays: dict[str, Values] = field(default_factory=dict)

    def room(self, name: str, shape: tuple[int, int, int], stack: ExitStack, *, sums: bool = False) -> Values:
        """Room for an array of some heads, which the memory counts; ``sums`` have accumulators."""
        heads, tokens, width = shape
        count = self.workload.batch * heads * tokens
        make = self.memory.scratch if sums else self.memory.buffer
        buffer = stack.enter_context(make(name, count, width))
        array: Values = buffer.over(slice(0, count), slice(0, width)).values
        self.arrays[name] = array.reshape(self.workload.batch, heads, tokens, width)
        return self.arrays[name]


class RunOfOwners(ABC):
    """All ranks of a run, each with its own tokens."""

    def __init__(self, workload: Workload, homes: Sequence[Tokens], ranks: list[CountedRank], network: Network) -> None:
        self.work, self.ranks, self.network = workload, ranks, network
        self.homes = [positions(each) for each in homes]

    @abstractmethod
    def forward(self) -> None:
        """O of own tokens, and what a backward pass needs of it."""

    @abstractmethod
    def backward(self) -> None:
        """Gradients of own tokens."""

    def all(self, inputs: Arrays) -> Arrays:
        """The passes of the workload, and their results."""
        work, names = self.work, list[str]()
        both = np.concatenate([inputs["K"], inputs["V"]], axis=-1)
        for rank, own in zip(self.ranks, self.homes, strict=True):
            rank.room("Q", (work.heads, len(own), work.d), rank.stack)[...] = inputs["Q"][:, :, own]
            rank.room("KV", (work.kv_heads, len(own), work.key_words), rank.stack)[...] = both[:, :, own]
            rank.room("O", (work.heads, len(own), work.value_dim), rank.stack)
            if work.is_training:
                rank.room("lse", (work.heads, len(own), 1), rank.stack, sums=True)
        if work.direction is not Direction.BACKWARD:
            self.forward()
            names.append("O")
        if work.direction is not Direction.FORWARD:
            self.settle(inputs)
            self.backward()
            names += ["dQ", "dKV"]
        results = {name: self.collected(name) for name in names}
        if "dKV" in results:
            both = results.pop("dKV")
            results |= {"dK": both[..., : work.d], "dV": both[..., work.d :]}
        return results

    def settle(self, inputs: Arrays) -> None:
        """dO, room for gradients, and of a backward pass alone what a forward pass would have left."""
        work = self.work
        for rank, own in zip(self.ranks, self.homes, strict=True):
            rank.room("dO", (work.heads, len(own), work.value_dim), rank.stack)[...] = inputs["dO"][:, :, own]
            rank.room("dQ", (work.heads, len(own), work.d), rank.stack)
            rank.room("dKV", (work.kv_heads, len(own), work.key_words), rank.stack)
            if not work.is_training:
                rank.arrays["O"][...] = outputs(inputs, work)[:, :, own]
                lse = rank.room("lse", (work.heads, len(own), 1), rank.stack, sums=True)
                lse[..., 0] = log_sum_exps(inputs, work)[:, :, own]
            products = rank.room("D", (work.heads, len(own), 1), rank.stack, sums=True)
            products[..., 0] = (rank.arrays["dO"] * rank.arrays["O"]).sum(axis=-1)

    def collected(self, name: str) -> Values:
        """An array of all tokens, from their owners."""
        first = self.ranks[0].arrays[name]
        whole = np.full((*first.shape[:2], self.work.keys, first.shape[3]), np.nan, dtype=np.float32)
        for rank, own in zip(self.ranks, self.homes, strict=True):
            whole[:, :, own] = rank.arrays[name]
        return whole


def positions(tokens: Tokens) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Every position of a set."""
    return np.concatenate([np.arange(*span, dtype=np.int64) for span in tokens.spans] or [np.zeros(0, dtype=np.int64)])
