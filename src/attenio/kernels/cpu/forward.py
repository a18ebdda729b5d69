"""The forward pass: which nest runs where, in what tasks, and how their sums become the output."""

from collections.abc import Callable

import torch

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.stacking import stacked
from attenio.kernels.call.visibility import ProblemTile
from attenio.kernels.cpu.attenio import attenio
from attenio.kernels.cpu.choice import choose
from attenio.kernels.cpu.compiled_rows import compiled_rows
from attenio.kernels.cpu.fused import fused, fused_rows
from attenio.kernels.cpu.online_softmax import MOST_SCORE, Sums, merged
from attenio.kernels.cpu.split_keys import split_keys
from attenio.kernels.cpu.tiles import Keys, batch_heads, cuts, unstacked_rows
from attenio.kernels.cpu.tiling import Tiling
from attenio.kernels.cpu.workers import run_all


def attend(problem: KernelProblem) -> Attended:
    """Attention by what is chosen for this machine."""
    return run(problem, choose(problem))


def run(problem: KernelProblem, choice: Choice) -> Attended:
    """Attention by a choice."""
    shape = (*problem.query.shape[:-1], problem.value.shape[-1])
    attended = Attended(
        output=torch.empty(shape, dtype=problem.query.dtype),
        largest=torch.empty(shape[:-1], dtype=problem.precision),
        total=torch.empty(shape[:-1], dtype=problem.precision),
    )
    if choice.own is not None:
        _after_prefix(problem, choice, choice.own, attended)
    elif choice.split is not None:
        _split(problem, choice, attended)
    elif choice.name == "fused":
        output, total = fused(problem)
        attended.output.copy_(output)
        attended.total.copy_(total)
        attended.largest.zero_()
    else:
        _stationary(problem, choice.kernel, attended)
    return attended


def _write(sums: Sums, part: ProblemTile, attended: Attended) -> None:
    """Divide, round and store what a part of the problem gave."""
    where = (part.batch, part.heads, slice(None), part.positions)
    unstacked_rows(sums.normalised(), attended.output[where])
    unstacked_rows(sums.largest, attended.largest[where][..., None])
    unstacked_rows(sums.total, attended.total[where][..., None])


def _stationary(problem: KernelProblem, tiling: Tiling, attended: Attended) -> None:
    """Tiles of queries stay; a thread has heads of its own, or positions of its own where heads are too few."""
    positions, every = cuts(problem.queries, tiling.query_tile), slice(0, problem.keys)
    where = batch_heads(problem, tiling.heads_at_once)
    share = min(-(-torch.get_num_threads() // len(where)), len(positions))

    def converted(batch_head: tuple[slice, slice]) -> Keys:
        return Keys(problem, batch_head, tiling.key_tile, keep_bytes=tiling.keep_bytes)

    def work(task: tuple[tuple[slice, slice], list[slice], Keys | None]) -> None:
        batch_head, mine, shared = task
        keys = converted(batch_head) if shared is None else shared
        for i in mine:
            part = ProblemTile(*batch_head, i, every)
            _write(attenio(problem, part, keys, subtracts=tiling.subtracts), part, attended)

    tasks = []
    for batch_head in where:
        shared = converted(batch_head) if share > 1 else None
        # Every share-th tile from the last on: under a causal mask late tiles are the long ones.
        tasks += [(batch_head, positions[::-1][k::share], shared) for k in range(share)]
    run_all(work, tasks, small=tiling.is_small)


def _split(problem: KernelProblem, choice: Choice, attended: Attended) -> None:
    """All rows of some heads at once; keys are split where heads alone do not keep the threads busy."""
    if choice.name == "fused_rows":
        whole = problem.batch * problem.kv_heads >= torch.get_num_threads()
        parts = [problem.everything] if whole else _parts(problem, choice)
        sums = run_all(lambda part: fused_rows(problem, part), parts)
        if max(float(each.largest.abs().max()) for each in sums) > MOST_SCORE:
            # Its log-sum-exp would lose a sum next to scores as large as these.
            return _split(problem, choose(problem, fuses=False), attended)
    else:
        parts = _parts(problem, choice)
        sums = run_all(lambda part: _rows(problem, part, choice), parts, small=choice.kernel.is_small)
    for part, given in _joined(parts, sums):
        _write(given, part, attended)
    return None


def _rows(problem: KernelProblem, part: ProblemTile, choice: Choice) -> Sums:
    if choice.name == "compiled_rows":
        return compiled_rows(problem, part)
    return split_keys(problem, part, choice.kernel.key_tile)


def _parts(problem: KernelProblem, choice: Choice) -> list[ProblemTile]:
    assert choice.split is not None
    first, stop, run, _ = choice.split
    runs = cuts(stop, run, first) or [slice(first, stop)]
    where = batch_heads(problem, choice.kernel.heads_at_once)
    return [ProblemTile(*batch_head, slice(0, problem.queries), run) for batch_head in where for run in runs]


def _joined(parts: list[ProblemTile], sums: list[Sums]) -> list[tuple[ProblemTile, Sums]]:
    """Sums over several runs of keys become one."""
    grouped: dict[tuple[int, ...], tuple[ProblemTile, list[Sums]]] = {}
    for part, given in zip(parts, sums, strict=True):
        name = tuple(cut.start for cut in part[:3])  # slices have no hash before Python 3.12
        grouped.setdefault(name, (part, []))[1].append(given)
    return [(part, merged(same)) for part, same in grouped.values()]


def _after_prefix(problem: KernelProblem, choice: Choice, own: Choice, attended: Attended) -> None:
    """The prefix once for the stacked rows of all requests, then each one's own keys, then both together."""
    together, tile = stacked(problem), choice.kernel.key_tile
    keys = [Keys(together, (slice(0, 1), slice(h, h + 1)), tile) for h in range(problem.kv_heads)]
    assert choice.split is not None
    runs = cuts(problem.prefix, choice.split.keys)
    positions = cuts(problem.batch * problem.queries, choice.kernel.query_tile)
    common_parts = [
        ProblemTile(slice(0, 1), slice(h, h + 1), i, run)
        for h in range(problem.kv_heads)
        for i in positions
        for run in runs
    ]
    parts = _parts(problem, own)
    tasks: list[tuple[Callable[[ProblemTile], Sums], ProblemTile]] = [
        (lambda part: _over_prefix(together, part, choice, keys), part) for part in common_parts
    ]
    tasks += [(lambda part: _rows(problem, part, own), part) for part in parts]
    every = run_all(lambda task: task[0](task[1]), tasks)
    common = [sums for _, sums in _joined(common_parts, every[: len(common_parts)])]
    # Tiles of one head after those of another, as (batch, KV heads, rows, ...).
    by_head = (problem.kv_heads, problem.batch, problem.queries * problem.group, -1)
    outputs, largest, totals = (
        torch.cat(tiles, 1).view(by_head).transpose(0, 1)
        for tiles in zip(*((sums.output, sums.largest, sums.total) for sums in common), strict=True)
    )
    for part, given in _joined(parts, every[len(common_parts) :]):
        here = (part.batch, part.heads)
        before = Sums(
            output=outputs[here].flatten(0, 1), largest=largest[here].flatten(0, 1), total=totals[here].flatten(0, 1),
            subtracts=given.subtracts,
        )  # fmt: skip
        _write(merged([before, given]), part, attended)


def _over_prefix(together: KernelProblem, part: ProblemTile, choice: Choice, keys: list[Keys]) -> Sums:
    """The sums of a tile of stacked positions over some keys of the prefix, by the nest that was chosen."""
    if choice.name == "compiled_rows":
        return compiled_rows(together, part)
    if choice.name == "fused_rows":
        fused = fused_rows(together, part)
        if float(fused.largest.abs().max()) <= MOST_SCORE:  # its log-sum-exp would lose a sum next to large scores
            return fused
    return attenio(together, part, keys[part.heads.start], subtracts=choice.kernel.subtracts)
