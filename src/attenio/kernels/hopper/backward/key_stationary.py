"""The backward pass whose blocks add their shares of dQ to sums, in any order: how it is launched.

for each group of units (``groups``), in one of the lanes in turn (``lanes``):
    convert and clear the sums of the lane's group before, prepare the rows of this one     (``rows``)
    gradients of its keys and values, additions to its sums of dQ                           (``narrow``, ``middle``)
in each lane: convert the sums of its last group

Every lane has sums of its own. While the last blocks of a group run, those of the next one fill the other SMs.
Extremes, where sums are integers (``grains``), are found before a launch, whose keys are in L2 then. Between launches
of two lanes there is no time for it (the pass took 8 percent longer at d=64, 4K): they are found for all units first.
"""

from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.config import BackwardCall, BackwardForm, form_of, processors_of
from attenio.kernels.hopper.backward.fixed_point import grains_suffice
from attenio.kernels.hopper.backward.launch_groups import Groups, groups_of
from attenio.kernels.hopper.backward.masks import Band, SeenRows
from attenio.kernels.hopper.backward.preprocess import PADDING, Rows
from attenio.kernels.hopper.lanes import forked, in_lane
from attenio.kernels.hopper.launch import Box
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["counts_grains", "groups_for", "sums_gradients", "sums_grids"]


def sums_gradients(problem: KernelProblem, saved: tuple[Tensor, ...], groups: Groups | None = None) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    form, group = form_of(problem), problem.group
    groups = groups or groups_for(problem, form)
    lanes = groups.lanes
    rows = Rows.of(problem, saved, lanes * groups.most * group, form.d, counted=counts_grains(problem))
    call, tiles = BackwardCall.of(problem, form, SeenRows.of(problem), rows), range(-(-problem.keys // form.keys))
    calls = [call._replace(rows=rows.of_lane(lane, lanes)) for lane in range(lanes)]
    done = [range(0)] * lanes
    if lanes > 1:
        rows.scan(range(problem.batch * problem.kv_heads))
    with forked(problem.query.device, lanes) as beside:
        for lane, units in groups.turns:
            heads = range(units.start * group, units.stop * group)
            with in_lane(lane, beside):
                if lanes == 1:
                    rows.scan(units)
                calls[lane].rows.between(done[lane], heads, call.found.query, problem.scale)
                if units:
                    chunk = Chunk(units, tiles, range(rows.padded), groups.together)
                    calls[lane].launch_keys(chunk, call.key_gradients, _sums_box(calls[lane].rows))
            done[lane] = heads
    return call.found


def counts_grains(problem: KernelProblem) -> bool:
    """Whether sums are integers, which repeat to the bit; an outlier of keys or values makes these coarser."""
    return problem.deterministic and grains_suffice(problem)


def groups_for(problem: KernelProblem, form: BackwardForm) -> Groups:
    """Launches whose sums stay in L2, where that costs little time."""
    padded, group = -(-problem.queries // PADDING) * PADDING, problem.group
    steps = _steps(Band.of(problem), problem.queries, problem.keys, group, form)
    units, processors = problem.batch * problem.kv_heads, processors_of(problem.query.device)
    return groups_of(units, steps, 4 * group * padded * form.d, processors)


@lru_cache(maxsize=512)
def _steps(band: Band, queries: int, keys: int, group: int, form: BackwardForm) -> tuple[int, ...]:
    """Tiles of rows that each tile of keys meets."""
    return tuple(group * len(span) // form.rows for span in band.spans(queries, keys, form.keys, form.rows))


def sums_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...]:
    """The programs of all launches in their order, for a prediction of the bytes that they move below L2."""
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    form, band = form_of(problem), Band.of(problem)
    groups, passing = groups_for(problem, form), problem.group * problem.queries
    both, swept, sums, counted = (d + width) * element, width * element, 4 * form.d, counts_grains(problem)
    scanned = problem.keys if counted else 0
    between = Sweep(
        done=0, following=0, first_unit=0, passing=passing, read_bytes=2 * swept + 8, written_bytes=d * element,
        swept_bytes=swept, updated_bytes=sums, kept_rows=scanned if groups.lanes == 1 else 0, kept_bytes=both,
        kept_tile=form.keys,
    )  # fmt: skip
    # Causal heads that share keys are played as full ones, of which all blocks are at the same head. They drift apart,
    # and move more than that: at 8K tokens and 4 heads each 15 percent unit after unit, 43 where four come together.
    gradients = Grid(
        units=1, rows=problem.keys, passing=passing, tile=form.keys, resident=processors_of(problem.query.device),
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, swept_bytes=swept, updated_bytes=sums,
        causal=band.above < problem.keys and problem.group == 1, backwards=True, together=groups.together,
        scanned=counted,
    )  # fmt: skip
    found: list[Grid | Sweep] = []
    if scanned and groups.lanes > 1:
        everyone = problem.batch * problem.kv_heads
        found.append(replace(between, following=everyone, passing=0, kept_rows=scanned))
    # One after the other, as Nsight Compute lets kernels run; where lanes overlap, they move more.
    done = [range(0)] * groups.lanes
    for lane, units in groups.turns:
        at, start = lane * groups.most, units.start
        found.append(replace(between, done=len(done[lane]), following=len(units), first_unit=start, first_updated=at))
        if units:
            found.append(replace(gradients, units=len(units), first_unit=start, first_updated=at))
        done[lane] = units
    return tuple(found)


def _sums_box(rows: Rows) -> Box:
    assert rows.sums is not None
    tiles = rows.sums.view(1, 1, -1, 64)
    return Box(tiles, tiles.shape, tiles.stride(), (1, 1, 64, 64))
