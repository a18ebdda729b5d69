"""A backward problem: what the forward one has, the gradient of its output, and what the forward pass saved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.inputs import Inputs
from attenio.dataflows.problem import NOTHING_STAYS, Advance, Problem, Stays
from attenio.masks.patterns import Band
from attenio.memory import SlowArray
from attenio.memory.matrix import Values
from attenio.reference import attention_blocks, segments
from attenio.reference.backward import Gradients
from attenio.reference.forward import softmax
from attenio.workload import Workload

Float32 = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class BackwardProblem(Problem):
    """The query heads of one KV head: their dO, saved O and log-sum-exp L come in, dQ, dK and dV go out.

    Where every row needs every key the rows of all heads are those of one head.

    ``d_sinks``: sums of the gradients of the sinks of its heads, (group, 1), where they have any. The outputs of the
    last ``kept_outputs`` rows are in fast memory since the forward pass, and its keys and values if ``keys_stayed``,
    with the last ``kept_queries``.
    """

    dO: SlowArray
    L: SlowArray = field()
    dQ: SlowArray
    dK: SlowArray
    dV: SlowArray
    d_sinks: Values | None = None
    kept_outputs: int = 0
    keys_stayed: bool = False
    kept_queries: int = 0


@dataclass(frozen=True)
class SavedValues:
    """What a forward pass leaves for the backward one: outputs, and the log-sum-exp of every row of scores.

    Also its probabilities by batch, head and segment, if it saved them, how many rows of outputs it left in fast
    memory, the last ones, whether it left all keys and values there, and how many of the last queries; or else what of
    the first keys and the last rows ``stays``.
    """

    output: Float32
    log_sum_exp: Float32
    probabilities: Mapping[tuple[int, int, int], Float32] | None = None
    kept_outputs: int = 0
    keys_stayed: bool = False
    kept_queries: int = 0
    stays: Stays = NOTHING_STAYS


def saved_by_forward(
    workload: Workload, inputs: Inputs, arithmetic: Arithmetic, sinks: Float32 | None = None
) -> SavedValues:
    """The output rounded to its element type and the log-sum-exp in the accumulator's, from the definition."""
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    output, lse = np.zeros(shape, dtype=np.float32), np.zeros((*shape[:3], 1), dtype=np.float32)
    for block in attention_blocks(*inputs, workload, sinks=sinks):
        output[block.batch, block.head, block.rows] = block.values
        lse[block.batch, block.head, block.rows, 0] = block.log_sum_exp
    arithmetic.keep(lse)
    return SavedValues(workload.dtype.rounded(output), lse)


@dataclass(frozen=True, kw_only=True)
class BackwardSharing:
    """What backward problems are cut from: a workload, its inputs, what was saved, and the gradients they fill."""

    workload: Workload
    inputs: Inputs
    d_output: Float32
    saved: SavedValues
    gradients: Gradients
    arithmetic: Arithmetic
    advance: Advance
    sinks: Float32 | None = None


def backward_problems(shared: BackwardSharing) -> Iterator[BackwardProblem]:
    """Each KV head of each sequence, segment by segment; its gradients are copied out when the next one is drawn."""
    workload, inputs, group, dtype = shared.workload, shared.inputs, shared.workload.group, shared.workload.dtype
    one_head = workload.heads_are_rows
    words = workload.accumulator_words
    turns = product(range(workload.batch), range(workload.kv_heads))
    # one KV head after the other where its sinks stay
    for batch, kv_head in sorted(turns, key=itemgetter(1)) if workload.sinks else turns:
        heads = slice(kv_head * group, (kv_head + 1) * group)
        for number, segment in enumerate(segments(workload)):
            rows, keys = (batch, heads, segment.rows), (batch, kv_head, segment.keys)
            stacked = {
                "Q": inputs.q[rows],
                "dO": shared.d_output[rows],
                "O": shared.saved.output[rows],
                "L": shared.saved.log_sum_exp[rows],
            }
            flat = {name: x.reshape(-1, x.shape[-1]) for name, x in stacked.items()}
            height, tall = len(flat["Q"]), segment.pattern.keys
            problem = BackwardProblem(
                label=f"batch {batch} KV head {kv_head} part {number}",
                pattern=Band.dense(height, tall) if one_head else segment.pattern,
                group=1 if one_head else group,
                Q=SlowArray.elements("Q", flat["Q"], dtype),
                K=SlowArray.elements("K", inputs.k[keys], dtype),
                V=SlowArray.elements("V", inputs.v[keys], dtype),
                O=SlowArray.elements("O", flat["O"], dtype),
                dO=SlowArray.elements("dO", flat["dO"], dtype),
                L=SlowArray("L", flat["L"], slice(0, height), slice(0, 1), words),
                P=_probabilities(shared, (batch, heads, number)),
                dQ=SlowArray.unwritten("dQ", (height, workload.d), dtype),
                dK=SlowArray.unwritten("dK", (tall, workload.d), dtype),
                dV=SlowArray.unwritten("dV", (tall, workload.value_dim), dtype),
                arithmetic=shared.arithmetic,
                intermediate_words=words,
                advance=shared.advance,
                first_head=heads.start,
                kept_outputs=shared.saved.kept_outputs,
                keys_stayed=shared.saved.keys_stayed,
                kept_queries=shared.saved.kept_queries,
                stays=shared.saved.stays,
            )
            yield problem
            shared.gradients.dq[rows] = problem.dQ.values.reshape(stacked["Q"].shape)
            shared.gradients.dk[keys] = problem.dK.values
            shared.gradients.dv[keys] = problem.dV.values


def _probabilities(shared: BackwardSharing, where: tuple[int, slice, int]) -> SlowArray | None:
    """The saved probabilities of the heads of a group, one under the other."""
    if shared.saved.probabilities is None:
        return None
    batch, heads, segment = where
    each = [shared.saved.probabilities[batch, head, segment] for head in range(heads.start, heads.stop)]
    values = np.concatenate(each)
    rows, keys = values.shape
    return SlowArray("P", values, slice(0, rows), slice(0, keys), shared.workload.accumulator_words)


def probabilities_of(
    workload: Workload, inputs: Inputs, arithmetic: Arithmetic
) -> dict[tuple[int, int, int], NDArray[np.float32]]:
    """P of every batch, head and segment in the accumulator's type, 0 where a score is not required."""
    probabilities = {}
    for batch in range(workload.batch):
        for head in range(workload.heads):
            for number, segment in enumerate(segments(workload)):
                q = inputs.q[batch, head, segment.rows].astype(np.float64)
                k = inputs.k[batch, head // workload.group, segment.keys].astype(np.float64)
                scores = workload.softmax_scale * (q @ k.T)
                scores[
                    ~segment.pattern.required(0, segment.pattern.rows, np.arange(segment.pattern.keys, dtype=np.int64))
                ] = -np.inf
                P = softmax(scores).astype(np.float32)
                arithmetic.keep(P)
                probabilities[batch, head, number] = P
    return probabilities
