"""The backward pass whose blocks add their shares of dQ to sums, in any order: how it is launched.

for each group of units (``backward_groups``):
    convert and clear the sums of the group before, prepare the rows of this one     (``backward_rows``)
    gradients of its keys and values, additions to its sums of dQ                    (``backward_narrow``)
convert the sums of the last group
"""

from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.gluon.backward_groups import Groups, groups_of
from attenio.kernels.gluon.backward_masks import SeenRows, tile_spans
from attenio.kernels.gluon.backward_narrow import narrow_gradients_kernel
from attenio.kernels.gluon.backward_rows import PADDING, Rows
from attenio.kernels.gluon.launch import Box, aligned, launch, padded_box
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["SumsForm", "groups_for", "sums_form", "sums_gradients", "sums_grids"]


class SumsForm(NamedTuple):
    """Tiles of the kernel: ``d`` is the width it works in, wider than the heads where columns are zeros.

    Registers of a computing thread, of 64 keys: two gradients of 64 x d, scores and their slopes of 64 x rows. 128 rows
    halve the reads of keys out of shared memory, but fit only beside heads of 64. ``slots`` are tiles of dS at once.
    """

    d: int
    rows: int
    slots: int
    keys: int = 128
    stages: int = 2
    registers: int = 240


def sums_form(width: int) -> SumsForm:
    """The form for heads of at most this width, up to 128."""
    return SumsForm(64, 128, 3) if width <= 64 else SumsForm(128, 64, 4)


def sums_gradients(problem: KernelProblem, saved: tuple[Tensor, ...], groups: Groups | None = None) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    query, key, value, group = grouped_heads(problem.query), problem.key, problem.value, problem.group
    form, seen = sums_form(max(query.shape[-1], value.shape[-1])), SeenRows.of(problem)
    groups = groups or groups_for(problem, form, seen)
    empty = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (query, key, value))
    found = Gradients(*empty, bias=None)  # type: ignore[misc]
    rows = Rows.of(problem, saved, groups.most * group, form.d)
    assert rows.sums is not None
    boxes = (
        padded_box(aligned(query.flatten(1, 2)), form.rows, form.d), padded_box(aligned(key), 64, form.d),
        padded_box(aligned(value), 64, form.d), padded_box(aligned(rows.gradient), form.rows, form.d),
        padded_box(found.key, 64, form.d), padded_box(found.value, 64, form.d), _sums_box(rows.sums),
    )  # fmt: skip
    constants = (
        form.rows, form.keys, form.d, form.stages, form.slots, seen.hides(problem.queries, problem.keys, form.keys),
        seen.is_packed, False, False, form.registers,
    )  # fmt: skip
    first_rows, stop_rows = (rows.lse if x is None else x for x in (seen.first_rows, seen.stop_rows))
    tiles, done = -(-problem.keys // form.keys), range(0)
    for units in groups.launches:
        heads = range(units.start * group, units.stop * group)
        rows.between(done, heads, found.query, problem.scale)
        launch(
            narrow_gradients_kernel, tiles * len(units), boxes, (
                rows.lse, rows.delta, first_rows, stop_rows, problem.scale * LOG2_E, problem.scale,
                units.start * tiles, problem.kv_heads, group, problem.keys, seen.below, seen.above,
                0, problem.queries, rows.padded, groups.together,
            ), constants, 168,
        )  # fmt: skip
        done = heads
    rows.between(done, range(0), found.query, problem.scale)
    return found


def groups_for(problem: KernelProblem, form: SumsForm, seen: SeenRows) -> Groups:
    """Launches whose sums stay in L2, where that costs no time."""
    queries, keys, group = problem.queries, problem.keys, problem.group
    band = SeenRows(-queries, keys) if seen.is_packed else seen
    padded = -(-queries // PADDING) * PADDING
    return groups_of(
        problem.batch * problem.kv_heads, _steps(band, queries, keys, group, form), 4 * group * padded * form.d,
        _processors(problem.query.device),
    )  # fmt: skip


@lru_cache(maxsize=512)
def _steps(band: SeenRows, queries: int, keys: int, group: int, form: SumsForm) -> tuple[int, ...]:
    """Tiles of rows that each tile of keys meets."""
    spans = tile_spans(band, queries, keys, key_tile=form.keys, row_tile=form.rows)
    return tuple(group * len(span) // form.rows for span in spans)


def sums_grids(problem: KernelProblem) -> tuple[Grid | Sweep, ...]:
    """The programs of all launches, for a prediction of the bytes that they move below L2."""
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    form, seen = sums_form(max(d, width)), SeenRows.of(problem)
    groups, passing = groups_for(problem, form, seen), problem.group * problem.queries
    both, swept, sums = (d + width) * element, width * element, 4 * form.d
    between = Sweep(
        done=0, following=0, first_unit=0, passing=passing, read_bytes=2 * swept + 8, written_bytes=d * element,
        swept_bytes=swept, updated_bytes=sums,
    )  # fmt: skip
    gradients = Grid(
        units=1, rows=problem.keys, passing=passing, tile=form.keys, resident=_processors(problem.query.device),
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, swept_bytes=swept, updated_bytes=sums,
        causal=seen.above < problem.keys and problem.group == 1, backwards=True, together=groups.together,
    )  # fmt: skip
    found: list[Grid | Sweep] = []
    done = 0
    for units in groups.launches:
        found.append(replace(between, done=done, following=len(units), first_unit=units.start))
        found.append(replace(gradients, units=len(units), first_unit=units.start))
        done = len(units)
    return (*found, replace(between, done=done))


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _sums_box(sums: Tensor) -> Box:
    tiles = sums.view(1, 1, -1, 64)
    return Box(tiles, tiles.shape, tiles.stride(), (1, 1, 64, 64))
