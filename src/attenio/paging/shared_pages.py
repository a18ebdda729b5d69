"""Attention on pages: rows of all requests that share a run of pages stay together while its keys pass once.

hold the sinks of the heads
for each part, runs of shared pages first; R its rows: new tokens of its requests, for all heads of the group
    for each tile i of row_tile rows:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each page of the part:
            load its scales
            for each tile j of key_tile keys of the page:
                load K_j;  S = cap(scale scale_K Q_i K_j^T), hidden past a row's own key
                P, max, sum, rescale = online softmax of S
                load V_j over K_j (not if it is part of K_j);  O_i = rescale O_i + scale_V P V_j
        for each row whose request has later parts: store (O, max, sum)
        for each other row:
            for each earlier part of its request: load (O, max, sum); join it
            add the weight of the sink to sum;  store O / sum
"""

from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.online_softmax import OnlineSoftmax, add_scores
from attenio.memory import Buffer, FastMemory, SlowArray, Step, Tile
from attenio.memory.indices import Indices
from attenio.paging.inputs import PagedInputs
from attenio.paging.plan import PagingPlan, Part
from attenio.paging.workload import PagedWorkload

Places = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class PagedProblem:
    """One KV head: rows (request, head, token), keys of all pages one after the other, partial results of parts."""

    workload: PagedWorkload
    Q: SlowArray
    K: SlowArray
    V: SlowArray
    O: SlowArray  # noqa: E741 - the paper's letter
    scales: SlowArray
    sinks: SlowArray
    partial: tuple[SlowArray, SlowArray, SlowArray]
    arithmetic: Arithmetic
    starts: Places = field(repr=False)

    @classmethod
    def of(cls, plan: PagingPlan, inputs: PagedInputs, kv_head: int, arithmetic: Arithmetic) -> "PagedProblem":
        """The rows and keys of one KV head of a run."""
        workload, group, w = plan.workload, plan.workload.group, plan.workload.accumulator_words
        heads = slice(kv_head * group, (kv_head + 1) * group)
        ends = np.cumsum(workload.new)
        queries = [
            inputs.q[heads, end - n : end].reshape(-1, workload.d) for n, end in zip(workload.new, ends, strict=True)
        ]
        rows, most = group * int(ends[-1]), _most_parts(plan)
        return cls(
            workload=workload,
            Q=SlowArray.elements("Q", np.concatenate(queries), workload.dtype),
            K=SlowArray.packed("K", inputs.k[kv_head].reshape(-1, workload.d), workload.per_word),
            V=SlowArray.packed("V", inputs.v[kv_head].reshape(-1, workload.value_dim), workload.per_word),
            O=SlowArray.unwritten("O", (rows, workload.value_dim), workload.dtype),
            scales=SlowArray("scales", inputs.scales[kv_head], *_whole(inputs.scales[kv_head]), _scale_words(workload)),
            sinks=SlowArray.elements("sinks", inputs.sinks[heads, None], workload.dtype),
            partial=(
                SlowArray.intermediate("partial O", (most * rows, workload.value_dim), w),
                SlowArray.intermediate("max", (most * rows, 1), w),
                SlowArray.intermediate("sum", (most * rows, 1), w),
            ),
            arithmetic=arithmetic,
            starts=np.concatenate([[0], group * ends]).astype(np.intp),
        )

    def rows_of(self, part: Part) -> tuple[Places, Places]:
        """Rows of a part, and how many keys each of them sees."""
        new, lengths, group = self.workload.new, self.workload.lengths, self.workload.group
        rows = [np.arange(self.starts[each], self.starts[each + 1], dtype=np.int64) for each in part.requests]
        seen = [
            np.tile(lengths[each] - new[each] + 1 + np.arange(new[each], dtype=np.int64), group)
            for each in part.requests
        ]
        return np.concatenate(rows), np.concatenate(seen)


def _whole(values: NDArray[np.float32]) -> tuple[slice, slice]:
    return slice(0, values.shape[0]), slice(0, values.shape[1])


def _scale_words(workload: PagedWorkload) -> int:
    """Words of one scale; there are two of a page, or one of a latent."""
    return workload.scale_words // (1 if workload.values_in_keys else 2)


def _most_parts(plan: PagingPlan) -> int:
    """Parts of the request that has the most."""
    return max(sum(request in part.requests for part in plan.parts) for request in range(len(plan.workload.new)))


def shared_pages(problem: PagedProblem, plan: PagingPlan, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    workload = problem.workload
    last = {request: number for number, part in enumerate(plan.parts) for request in part.requests}
    met = dict.fromkeys(last, 0)  # earlier parts of each request
    with ExitStack() as residency:
        sinks = None
        if workload.sinks:
            held = residency.enter_context(fast.buffer("sinks", workload.group, 1))
            sinks = residency.enter_context(held.holding(problem.sinks, slice(0, workload.group)))
        for number, part in enumerate(plan.parts):
            ends = {request: last[request] == number for request in part.requests}
            _attend(problem, plan, part, (fast, sinks), {request: (met[request], ends[request]) for request in ends})
            for request in part.requests:
                met[request] += 1


def _attend(
    problem: PagedProblem,
    plan: PagingPlan,
    part: Part,
    memory: tuple[FastMemory, Tile | None],
    state: dict[int, tuple[int, bool]],
) -> None:
    (fast, sinks), workload = memory, problem.workload
    rows, seen = problem.rows_of(part)
    owner = np.repeat(part.requests, [workload.group * workload.new[each] for each in part.requests])
    t, b = min(plan.tiles.row_tile, len(rows)), min(plan.tiles.key_tile, workload.page_size, part.stop - part.first)
    d, dv = workload.d, workload.value_dim
    wide = d if workload.values_in_keys else max(d, dv)
    with ExitStack() as residency:
        enter = residency.enter_context
        Q_buffer, O_buffer = enter(fast.buffer("Q", t, d)), enter(fast.scratch("O", t, dv))
        softmax = enter(OnlineSoftmax(fast, problem.arithmetic, t))
        S_buffer, KV_buffer = enter(fast.scratch("S", t, b)), enter(fast.packed("KV", b, wide, workload.per_word))
        fast.reserve("scales", workload.scale_words)
        residency.callback(fast.release, "scales", workload.scale_words)
        joins = any(ends and before for before, ends in state.values())
        joined = (
            [enter(fast.scratch(name, 1, width)) for name, width in (("O", dv), ("max", 1), ("sum", 1))]
            if joins
            else []
        )
        for top in range(0, len(rows), t):
            here = slice(top, top + t)
            with Q_buffer.holding(problem.Q, rows[here]) as Q_i:
                softmax.begin(rows[here])
                O_i = O_buffer.zeros(rows[here], problem.V.columns)
                for keys, scales in _tiles(problem, part, b, fast):
                    S = S_buffer.zeros(rows[here], keys.places)
                    _meet(problem, (Q_i, O_i, S), (softmax, KV_buffer), keys, (scales, seen[here]), fast)
            tile = (O_i, softmax.max, softmax.sum)
            _finish(problem, tile, (owner[here], state), (joined, sinks), fast)


@dataclass(frozen=True)
class _Keys:
    """Keys of a page: where they lie in the pool, and their positions in the request."""

    places: Indices
    positions: Places


def _tiles(problem: PagedProblem, part: Part, key_tile: int, fast: FastMemory):  # type: ignore[no-untyped-def]
    """Tiles of keys of a part, page by page, each with the scales of its page, which are loaded with the first."""
    workload, size = problem.workload, problem.workload.page_size
    table = workload.table[part.requests[0]]
    for place in range(part.first // size, -(-part.stop // size)):
        page, stop = table[place], min(part.stop, (place + 1) * size)
        scales = problem.scales.values[page]
        if workload.has_scales:
            count = 1 if workload.values_in_keys else 2
            into = Tile("scales", np.empty((1, count), np.float32), slice(page, page + 1), slice(0, count))
            fast.load(problem.scales, into)
        for first in range(place * size, stop, key_tile):
            end = min(first + key_tile, stop)
            start = page * size + first - place * size
            yield _Keys(slice(start, start + end - first), np.arange(first, end, dtype=np.int64)), scales


def _meet(
    problem: PagedProblem,
    tiles: tuple[Tile, Tile, Tile],
    room: tuple[OnlineSoftmax, Buffer],
    keys: _Keys,
    beside: tuple[NDArray[np.float32], Places],
    fast: FastMemory,
) -> None:
    """A tile of rows meets a tile of keys."""
    (Q_i, O_i, S), (softmax, KV_buffer), (scales, seen) = tiles, room, beside
    workload, cap = problem.workload, problem.workload.softcap
    hidden = keys.positions >= seen[:, None]
    width = workload.value_dim
    with KV_buffer.holding(problem.K, keys.places) as K_j:
        add_scores(fast, problem.arithmetic, S, Q_i, K_j)
        S.values *= np.float32(workload.softmax_scale) * scales[0]
        if cap is not None:
            S.values[...] = np.float32(cap) * np.tanh(S.values / np.float32(cap))
        P = softmax.absorb(S, hidden if hidden.any() else None)
        if workload.values_in_keys:
            P.values *= scales[0]
            softmax.accumulate(O_i, P, K_j.first_columns(width))
    if not workload.values_in_keys:
        with KV_buffer.holding(problem.V, keys.places) as V_j:
            P.values *= scales[1]
            softmax.accumulate(O_i, P, V_j)


def _finish(
    problem: PagedProblem,
    tile: tuple[Tile, Tile, Tile],
    rows: tuple[Places, dict[int, tuple[int, bool]]],
    room: tuple[list[Buffer], Tile | None],
    fast: FastMemory,
) -> None:
    """Partial results of rows that have later parts are stored; the others are joined, divided and stored."""
    (owner, state), (joined, sinks), total = rows, room, len(problem.Q.values)
    ids = np.asarray(tile[0].rows)
    ends = np.array([state[each][1] for each in owner.tolist()])
    before = np.array([state[each][0] for each in owner.tolist()])
    later = np.flatnonzero(~ends)
    if len(later):
        for held, slow in zip(tile, problem.partial, strict=True):
            fast.store(held, slow, ids[later] + before[later] * total, at=later)
    done = np.flatnonzero(ends)
    for row in done.tolist():
        for earlier in range(before[row]):
            there = slice(int(ids[row]) + earlier * total, int(ids[row]) + earlier * total + 1)
            with ExitStack() as residency:
                other = [
                    residency.enter_context(buffer.holding(slow, there)).values[0]
                    for buffer, slow in zip(joined, problem.partial, strict=True)
                ]
                _join([held.values[row] for held in tile], other)
            fast.computed(Step.MERGE, slice(int(ids[row]), int(ids[row]) + 1), tile[0].columns)
    if len(done):
        _divide(problem, tile, done, sinks, ids)
        fast.computed(Step.NORMALISE, ids[done], tile[0].columns)
        fast.store(tile[0], problem.O, ids[done], at=done)


def _join(mine: list[NDArray[np.float32]], other: list[NDArray[np.float32]]) -> None:
    """Add another part's output and sum of a row, both scaled to the larger maximum."""
    largest = np.maximum(mine[1], other[1])
    here, there = np.exp(mine[1] - largest), np.exp(other[1] - largest)
    mine[0][...] = mine[0] * here + other[0] * there
    mine[2][...] = mine[2] * here + other[2] * there
    mine[1][...] = largest


def _divide(
    problem: PagedProblem, tile: tuple[Tile, Tile, Tile], done: Places, sinks: Tile | None, ids: Places
) -> None:
    """O / sum, with the weight of a sink in the sum."""
    O_i, largest, total = (held.values for held in tile)
    if sinks is not None:
        heads = np.concatenate(
            [np.repeat(np.arange(problem.workload.group, dtype=np.int64), new) for new in problem.workload.new]
        )[ids[done]]
        sink = sinks.values[heads]
        higher = np.maximum(largest[done], sink)
        fading = np.exp(largest[done] - higher)
        O_i[done] *= fading
        total[done] = total[done] * fading + np.exp(sink - higher)
    O_i[done] /= total[done]
    problem.arithmetic.keep(O_i)
