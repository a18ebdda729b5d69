"""The dataflow ``key_stationary``: blocks add their parts of dQ to accumulators, in any order. How it is launched.

for each group of batch x KV heads (``launch_groups``), on the streams in turn (``replay.streams``):
    convert and clear the accumulators of the stream's group before, prepare the rows of this one     (``preprocess``)
    gradients of its keys and values, additions to its dQ accumulators      (``key_stationary_d64`` and ``_d128``,
                                                                             ``cuda/key_stationary.cu``)
on each stream: convert the accumulators of its last group

Every stream has accumulators of its own. While the last blocks of a group run, those of the next one fill the other
SMs. Maxima, where accumulators are integers (``fixed_point``), are computed before a launch, whose keys are in L2 then.
Between launches of two streams there is no time for it (the pass took 8 percent longer at d=64, 4K): they are computed
for all heads first.
"""

from dataclasses import replace

from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.config import BackwardCall, BackwardConfig, config_of
from attenio.kernels.hopper.backward.group_parts import head_bytes, in_parts, joined, parts_for, steps_of
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups, launch_groups
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.backward.preprocess import RowStatistics
from attenio.kernels.hopper.cuda.key_stationary import OFFSETS, launch_key_stationary
from attenio.kernels.hopper.descriptors import TmaDescriptor
from attenio.kernels.replay.streams import forked, on_stream
from attenio.planning.shared_cache import Grid, Sweep


def key_stationary_gradients(
    problem: KernelProblem,
    saved: tuple[Tensor, ...],
    groups: LaunchGroups | None = None,
    *,
    config: BackwardConfig | None = None,
) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    config, whole = config or config_of(problem), problem
    if groups is None:
        problem = in_parts(problem, parts_for(problem, config))
    groups, group = groups or groups_for(problem, config), problem.group
    streams, heads_at_once = groups.streams, groups.streams * groups.most * group
    statistics = RowStatistics.of(
        problem, saved, heads_at_once, config.stored_columns, fixed_point=config.fixed_point, as_offsets=config.is_cuda
    )  # fmt: skip
    seen = VisibleRows.of(problem)
    call = BackwardCall.of(problem, config, seen.in_order(config.keys) if config.is_cuda else seen, statistics)
    tiles = range(-(-problem.keys // config.keys))
    calls = [call._replace(statistics=statistics.of_stream(index, streams)) for index in range(streams)]
    done = [range(0)] * streams
    if streams > 1:
        statistics.compute_maxima(range(problem.batch * problem.kv_heads))
    with forked(problem.query.device, streams) as side_streams:
        for index, batch_heads in groups.turns:
            heads = range(batch_heads.start * group, batch_heads.stop * group)
            with on_stream(index, side_streams):
                if streams == 1:
                    statistics.compute_maxima(batch_heads)
                calls[index].statistics.between(done[index], heads, call.gradients.query, problem.scale)
                if batch_heads:
                    chunk = Chunk(batch_heads, tiles, range(statistics.padded), groups.together)
                    if config.is_cuda:
                        launch_key_stationary(calls[index], chunk)
                    else:
                        accumulators = _dq_descriptors(calls[index].statistics, config)
                        calls[index].launch_keys(chunk, call.key_gradients, *accumulators)
            done[index] = heads
    return joined(call.gradients, whole)


def groups_for(problem: KernelProblem, config: BackwardConfig) -> LaunchGroups:
    """Launches whose accumulators stay in L2, where that costs little time."""
    steps = steps_of(Band.of(problem), problem.queries, problem.keys, problem.group, config)
    batch_heads, processors = problem.batch * problem.kv_heads, processors_of(problem.query.device)
    return launch_groups(batch_heads, steps, head_bytes(problem.group, problem.queries, config), processors)


def key_stationary_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...] | None:
    """The programs of all launches in their order, for a prediction of the bytes that they move below L2; None where
    groups are in parts, or programs take whole heads."""
    if config_of(problem).whole_heads or parts_for(problem, config_of(problem)) > 1:
        return None
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    config, band = config_of(problem), Band.of(problem)
    groups, passing = groups_for(problem, config), problem.group * problem.queries
    both, swept, updated = (d + width) * element, width * element, 4 * config.stored_columns
    fixed_point, row_bytes = config.fixed_point, 2 * OFFSETS if config.is_cuda else 8  # lse and D of a row
    scanned = problem.keys if fixed_point else 0
    between = Sweep(
        done=0, following=0, first_unit=0, passing=passing, read_bytes=2 * swept + 8, written_bytes=d * element,
        swept_bytes=swept, updated_bytes=updated, kept_rows=scanned if groups.streams == 1 else 0, kept_bytes=both,
        kept_tile=config.keys, last_first=True,
    )  # fmt: skip
    # Causal heads that share keys are played as full ones, of which all blocks are at the same head. They drift apart,
    # and move more than that: at 8K tokens and 4 heads each 15 percent one by one, 43 where four come together.
    gradients = Grid(
        units=1, rows=problem.keys, passing=passing, tile=config.keys, resident=processors_of(problem.query.device),
        read_bytes=both, written_bytes=both, passing_bytes=both + row_bytes, swept_bytes=swept, updated_bytes=updated,
        causal=band.above < problem.keys and problem.group == 1, backwards=True, together=groups.together,
        scanned=fixed_point,
    )  # fmt: skip
    grids: list[Grid | Sweep] = []
    if scanned and groups.streams > 1:
        everyone = problem.batch * problem.kv_heads
        grids.append(replace(between, following=everyone, passing=0, kept_rows=scanned))
    # One after the other, as Nsight Compute lets kernels run; where streams overlap, they move more.
    done = [range(0)] * groups.streams
    for index, heads in groups.turns:
        at, start = index * groups.most, heads.start
        grids.append(replace(between, done=len(done[index]), following=len(heads), first_unit=start, first_updated=at))
        if heads:
            grids.append(replace(gradients, units=len(heads), first_unit=start, first_updated=at))
        done[index] = heads
    return tuple(grids)


def _dq_descriptors(statistics: RowStatistics, config: BackwardConfig) -> tuple[TmaDescriptor | None, ...]:
    """Of accumulators: tiles of 64 columns, and those of fewer beside them where the kernel has such."""
    assert statistics.dq_acc is not None
    tiles = statistics.dq_acc.view(1, 1, -1, 64)
    whole = TmaDescriptor(tiles, tiles.shape, tiles.stride(), (1, 1, 64, 64))
    if config.d <= 64:
        return (whole,)
    return whole, whole._replace(block_shape=(1, 1, config.d % 64, 64)) if config.d % 64 else None
