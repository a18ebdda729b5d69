"""The words of memory that every rank of a grid holds at its peak.

Rows and their sums stay, keys stream: a rank holds the queries of its row block, or of as many columns of it as one
pass takes, and two buffers for the keys of a peer, one being filled while the other is worked on. In each pass all
keys come again. What is counted, forward:

    home      own tokens, all heads: Q, K, V and O
    place     own heads of the tokens of all head peers: Q, K and V (with one head group that is home)
    rows      gathered queries (with one column that is place)
    state     sums of outputs, maxima and sums of rows
    then the larger of
    stream    two buffers for keys of a peer (with one row: none)
    merge     the partial outputs of a row peer, and with several head groups the merged outputs

Backward: home also has dO, dQ, dK, dV and D; place has dO and D; log-sum-exps of the own heads are at hand from the
forward pass; sums are those of dQ for the rows and of dK and dV for the own keys; beside a peer's keys there is room
for its partial dK and dV, and for those that arrive.

A training step keeps Q, K, V and O of the own heads and their log-sum-exps between its passes, and makes D where
these are.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid
from attenio.cluster.words import Shares, halo_keys
from attenio.masks import SlidingWindow
from attenio.workload import Direction, Workload

Words = NDArray[np.int64]


def memory_words(workload: Workload, grid: Grid, *, passes: int = 1) -> Words:
    """Words that every rank holds at its peak; a training step in that of its passes that holds more.

    >>> from attenio.workload import Workload
    >>> int(memory_words(Workload(n=1024, d=64, heads=8), Grid(heads=2, queries=2, keys=2)).max())
    987136
    """
    parts, step = _Parts(workload, grid, Shares.of(workload, grid), passes), workload.is_training
    each = []
    if workload.direction is not Direction.BACKWARD:
        each.append(parts.forward(keeps=step))
    if workload.direction is not Direction.FORWARD:
        each.append(parts.backward(kept=step))
    words: Words = np.max(each, axis=0)
    return words.reshape(-1)


def pass_columns(grid: Grid, passes: int) -> tuple[slice, ...]:
    """The columns whose rows each pass takes, as even as they come."""
    size = -(-grid.keys // passes)
    return tuple(slice(start, min(start + size, grid.keys)) for start in range(0, grid.keys, size))


class _Parts:
    """The sizes that both passes are made of, as arrays [row, column, head group]."""

    def __init__(self, workload: Workload, grid: Grid, shares: Shares, passes: int) -> None:
        self.workload, self.grid, batch = workload, grid, workload.batch
        self.own_rows = batch * workload.heads * shares.queries
        self.own_keys = batch * workload.kv_heads * shares.keys
        rows, keys = batch * workload.heads // grid.heads, batch * workload.kv_heads // grid.heads
        self.place_rows = rows * np.broadcast_to(shares.queries.sum(axis=2, keepdims=True), shares.queries.shape)
        self.place_keys = keys * np.broadcast_to(shares.keys.sum(axis=2, keepdims=True), shares.keys.shape)
        taken = [self.place_rows[:, part].sum(axis=1, keepdims=True) for part in pass_columns(grid, passes)]
        self.pass_rows = np.max(taken, axis=0)
        self.peer_keys = keys * self._peer_keys(shares)

    def _peer_keys(self, shares: Shares) -> Words:
        """Keys of the peer with most of those that a rank takes in at once; none with one row."""
        if self.grid.queries == 1:
            return np.zeros_like(shares.keys)
        if isinstance(self.workload.mask, SlidingWindow):
            most = halo_keys(self.workload, self.grid, shares).max(axis=0)
            return np.broadcast_to(most[:, None, None], shares.keys.shape)
        everyones = shares.keys.sum(axis=2, keepdims=True)
        largest = np.sort(everyones, axis=0)
        # the largest of the others: of the largest itself the second largest
        most = np.where(everyones == largest[-1:], largest[-2:-1], largest[-1:])
        return np.broadcast_to(most, shares.keys.shape)

    def forward(self, *, keeps: bool) -> Words:
        work, several, wide = self.workload, self.grid.heads > 1, self.workload.accumulator_words
        home = self.own_rows * (work.d + work.value_dim) + self.own_keys * work.key_words
        place = (self.place_rows * work.d + self.place_keys * work.key_words) * several
        outputs = self.place_rows * work.value_dim * several
        rows = self.pass_rows * work.d * (self.grid.keys > 1)
        state = self.pass_rows * (work.value_dim + 2) * wide
        stream = 2 * self.peer_keys * work.key_words
        merge = self.place_rows * (work.value_dim + 1) * wide * (self.grid.keys > 1)
        if keeps:
            return np.asarray(
                home + place + outputs + self.place_rows * wide + rows + state + np.maximum(stream, merge)
            )
        return np.asarray(home + place + rows + state + np.maximum(stream, merge + outputs))

    def backward(self, *, kept: bool) -> Words:
        work, wide, several = self.workload, self.workload.accumulator_words, self.grid.heads > 1
        d, value_dim, key = work.d, work.value_dim, work.key_words
        home = self.own_rows * (2 * (d + value_dim) + wide * (not (kept and several))) + self.own_keys * 2 * key
        saved = self.place_rows * wide
        place = (self.place_rows * (d + value_dim * (1 + kept) + wide) + self.place_keys * key) * several
        rows = self.pass_rows * (d + value_dim + 2 * wide) * (self.grid.keys > 1)
        sums = self.pass_rows * d * wide + self.place_keys * key * wide
        stream = self.peer_keys * key * (2 + wide) + self.place_keys * key * wide * (self.grid.queries > 1)
        merge = self.place_rows * d * wide * (self.grid.keys > 1)
        return np.asarray(home + saved + place + rows + sums + np.maximum(stream, merge))
