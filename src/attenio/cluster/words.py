"""The words that every rank sends and receives, stage by stage: exact, ragged shares included.

Tokens start and end as ``partition`` spreads them, with all their heads. Forward:

    scatter-heads    to the head peers: their heads of my tokens of Q, K and V
    gather-queries   to the row peers: the queries that I now have, of my heads
    gather-keys      to the column peers: my keys and values (under a window: those that their rows see)
    (compute)        rows of the row block with keys of the column
    reduce-outputs   to each row peer: my partial outputs of its queries, and their log-sum-exps
    return-heads     to each head peer: my heads of its tokens of O

Each rank has then merged the log-sum-exps of its queries and heads and keeps them for the gradient. Backward, D is the
row sum of dO·O, made where the tokens are:

    scatter-heads    Q, dO, D, K and V
    gather-queries   Q, dO, D and the log-sum-exps
    gather-keys      K and V
    (compute)
    reduce-queries   partial dQ to the row peers
    reduce-keys      partial dK and dV to the column peers
    return-heads     dQ, dK and dV

In a training step the backward pass follows a forward pass on the same grid, which kept queries, keys, values and
outputs of the rank's heads. Of these only dO is exchanged, and D is made of what is there: scatter-gradients, dO alone,
takes the place of scatter-heads.

Elements take one word. Partial sums, log-sum-exps and D take as many as an accumulator (``workload.accumulator_words``:
one, unless an accumulator is named). Sums that are complete travel as elements. A stage without peers sends nothing.

>>> from attenio.workload import Workload
>>> workload = Workload(n=1024, d=64, heads=8, kv_heads=2)
>>> stages = stage_words(workload, Grid(heads=2, queries=2, keys=2))
>>> [(each.stage.value, int(each.sent.max())) for each in stages]
... # doctest: +NORMALIZE_WHITESPACE
[('scatter-heads', 49152), ('gather-queries', 65536), ('gather-keys', 32768), ('reduce-outputs', 66560),
 ('return-heads', 32768)]
"""

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid, check_grid
from attenio.cluster.partition import Sharding, Sizes, sharding_for, share_sizes
from attenio.errors import InvalidInput
from attenio.masks import SlidingWindow
from attenio.masks.patterns.of_mask import band_of
from attenio.workload import Direction, Workload


class Stage(Enum):
    """One exchange of messages between ranks that need nothing of each other's in between."""

    SCATTER_HEADS = "scatter-heads"
    SCATTER_GRADIENTS = "scatter-gradients"
    GATHER_QUERIES = "gather-queries"
    GATHER_KEYS = "gather-keys"
    REDUCE_OUTPUTS = "reduce-outputs"
    REDUCE_QUERIES = "reduce-queries"
    REDUCE_KEYS = "reduce-keys"
    RETURN_HEADS = "return-heads"


FORWARD_STAGES = (
    Stage.SCATTER_HEADS,
    Stage.GATHER_QUERIES,
    Stage.GATHER_KEYS,
    Stage.REDUCE_OUTPUTS,
    Stage.RETURN_HEADS,
)
BACKWARD_STAGES = (
    Stage.SCATTER_HEADS,
    Stage.GATHER_QUERIES,
    Stage.GATHER_KEYS,
    Stage.REDUCE_QUERIES,
    Stage.REDUCE_KEYS,
    Stage.RETURN_HEADS,
)
# The backward pass of a training step.
LATER_STAGES = (Stage.SCATTER_GRADIENTS, *BACKWARD_STAGES[1:])


@dataclass(frozen=True, kw_only=True)
class StageWords:
    """Words that every rank sends and receives in a stage."""

    stage: Stage
    sent: NDArray[np.int64]
    received: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Widths:
    """Words of one token and head in a stage: of a query head's row, and of a KV head's key."""

    row: int
    key: int


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How many queries and keys of a sequence every rank holds, as arrays [row, column, head group]."""

    sharding: Sharding
    queries: Sizes
    keys: Sizes

    @classmethod
    def of(cls, workload: Workload, grid: Grid, sharding: Sharding | None = None) -> "Shares":
        """The shares of a workload's tokens; the sharding is that of its mask unless another is given."""
        chosen = sharding_for(workload.mask) if sharding is None else sharding
        shape = (grid.queries, grid.keys, grid.heads)
        queries, keys = (share_sizes(n, grid.devices, chosen) for n in (workload.queries, workload.keys))
        return cls(sharding=chosen, queries=queries.reshape(shape), keys=keys.reshape(shape))


def stages_of(direction: Direction) -> tuple[Stage, ...]:
    """The stages of a pass, in order; of a training step those of its two passes."""
    match direction:
        case Direction.FORWARD:
            return FORWARD_STAGES
        case Direction.BACKWARD:
            return BACKWARD_STAGES
        case Direction.TRAINING:
            return FORWARD_STAGES + LATER_STAGES
        case _:
            assert_never(direction)


def passes_of(workload: Workload) -> tuple[tuple[Workload, tuple[Stage, ...]], ...]:
    """The passes of a workload with their stages: one, or the two of a training step."""
    if not workload.is_training:
        return ((workload, stages_of(workload.direction)),)
    return (workload.towards(Direction.FORWARD), FORWARD_STAGES), (workload.towards(Direction.BACKWARD), LATER_STAGES)


def stage_widths(workload: Workload, stage: Stage) -> Widths:
    """What one token of one head takes in a stage of a pass, in words."""
    if workload.direction is Direction.TRAINING:
        raise InvalidInput("a training step has a width for each of its passes; ask about forward and backward")
    d, value_dim, key, wide = workload.d, workload.value_dim, workload.key_words, workload.accumulator_words
    backward = workload.direction is Direction.BACKWARD
    match stage:
        case Stage.SCATTER_HEADS:
            return Widths(row=d + value_dim + wide if backward else d, key=key)
        case Stage.SCATTER_GRADIENTS:
            return Widths(row=value_dim, key=0)
        case Stage.GATHER_QUERIES:
            return Widths(row=d + value_dim + 2 * wide if backward else d, key=0)
        case Stage.GATHER_KEYS:
            return Widths(row=0, key=key)
        case Stage.REDUCE_OUTPUTS:
            return Widths(row=(value_dim + 1) * wide, key=0)
        case Stage.REDUCE_QUERIES:
            return Widths(row=d * wide, key=0)
        case Stage.REDUCE_KEYS:
            return Widths(row=0, key=key * wide)
        case Stage.RETURN_HEADS:
            return Widths(row=d, key=key) if backward else Widths(row=value_dim, key=0)
        case _:
            assert_never(stage)


def stage_words(workload: Workload, grid: Grid, sharding: Sharding | None = None) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage of the workload's direction."""
    check_grid(grid, workload)
    shares = Shares.of(workload, grid, sharding)
    return tuple(
        exchanged(one, grid, shares, stage, stage_widths(one, stage))
        for one, stages in passes_of(workload)
        for stage in stages
    )


def sent_words(workload: Workload, grid: Grid, sharding: Sharding | None = None) -> NDArray[np.int64]:
    """Words that every rank sends over all stages.

    >>> workload = Workload(n=1024, d=64, heads=8, kv_heads=2)
    >>> int(sent_words(workload, Grid(heads=2, queries=4)).max()) // (1024 // 8 * 64)
    22
    """
    total: NDArray[np.int64] = np.sum(
        [words.sent for words in stage_words(workload, grid, sharding)], axis=0, dtype=np.int64
    )
    return total


def exchanged(workload: Workload, grid: Grid, shares: Shares, stage: Stage, widths: Widths) -> StageWords:
    """What every rank sends and receives in a stage where tokens have these widths, in words or in other units."""
    row = workload.batch * (workload.heads // grid.heads) * widths.row
    key = workload.batch * (workload.kv_heads // grid.heads) * widths.key
    q, k = shares.queries, shares.keys
    # after the exchange of heads, every rank of a place has the tokens of all of its head peers
    all_q, all_k = (np.broadcast_to(each.sum(axis=2, keepdims=True), each.shape) for each in (q, k))
    mine = row * q + key * k
    everyones = row * all_q + key * all_k
    match stage:
        case Stage.SCATTER_HEADS | Stage.SCATTER_GRADIENTS:
            sent, received = mine * (grid.heads - 1), everyones - mine
        case Stage.RETURN_HEADS:
            sent, received = everyones - mine, mine * (grid.heads - 1)
        case Stage.GATHER_QUERIES | Stage.REDUCE_OUTPUTS | Stage.REDUCE_QUERIES:
            out, others = everyones * (grid.keys - 1), everyones.sum(axis=1, keepdims=True) - everyones
            sent, received = (out, others) if stage is Stage.GATHER_QUERIES else (others, out)
        case Stage.GATHER_KEYS | Stage.REDUCE_KEYS:
            if isinstance(workload.mask, SlidingWindow):
                seen = key * halo_keys(workload, grid, shares)
                out, others = seen.sum(axis=1), seen.sum(axis=0)
                out, others = (np.repeat(each, grid.heads).reshape(q.shape) for each in (out, others))
            else:
                out, others = everyones * (grid.queries - 1), everyones.sum(axis=0, keepdims=True) - everyones
            sent, received = (out, others) if stage is Stage.GATHER_KEYS else (others, out)
        case _:
            assert_never(stage)
    return StageWords(stage=stage, sent=sent.reshape(-1), received=received.reshape(-1))


def halo_keys(workload: Workload, grid: Grid, shares: Shares) -> Sizes:
    """Under a window: how many keys of row block [source] the rows of row block [target] see; 0 for its own."""
    mask = workload.mask
    assert isinstance(mask, SlidingWindow)
    if grid.keys > 1 or shares.sharding is not Sharding.CONTIGUOUS:
        raise InvalidInput(
            f"a window is planned for contiguous tokens and one column of keys, and this grid is {grid} with"
            f" {shares.sharding.value} tokens; use keys=1"
        )
    band = band_of(mask, queries=workload.queries, keys=workload.keys)
    rows, keys = (np.concatenate([[0], np.cumsum(each.sum(axis=(1, 2)))]) for each in (shares.queries, shares.keys))
    first = np.clip(rows[:-1] + band.shift - band.left, 0, workload.keys)
    last = np.clip(rows[1:] + band.shift + band.right, first, workload.keys)
    last = np.where(rows[1:] > rows[:-1], last, first)  # no rows see no keys
    seen = np.minimum(keys[1:, None], last[None]) - np.maximum(keys[:-1, None], first[None])
    halo: Sizes = np.maximum(seen, 0).astype(np.int64)
    np.fill_diagonal(halo, 0)
    return halo
