"""The backward pass whose blocks add their shares of dQ to sums, in any order: how it is launched.

    for each group of units (``backward_groups``):
        convert and clear the sums of the group before, prepare the rows of this one     (``backward_rows``)
        gradients of its keys and values, additions to its sums of dQ
    convert the sums of the last group
"""

import torch
from torch import Tensor

from attenio.kernels.gluon.backward_forms import BackwardForm, backward_form, boxed, hides
from attenio.kernels.gluon.backward_groups import Groups, groups_of
from attenio.kernels.gluon.backward_rows import Rows
from attenio.kernels.gluon.launch import aligned
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads, restrictions_of
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["groups_for", "sums_gradients"]


def sums_gradients(problem: KernelProblem, saved: tuple[Tensor, ...], groups: Groups | None = None) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    query, key, value, group = grouped_heads(problem.query), problem.key, problem.value, problem.group
    form, groups = form_of(problem), groups or groups_for(problem)
    found = Gradients(
        query=torch.empty(query.shape, dtype=query.dtype, device=query.device),
        key=torch.empty(key.shape, dtype=query.dtype, device=query.device),
        value=torch.empty(value.shape, dtype=query.dtype, device=query.device),
        bias=None,
    )
    rows = Rows.of(problem, saved, groups.most * group, form.d)
    given = tuple(aligned(tensor) for tensor in (query.flatten(1, 2), key, value, rows.gradient))
    done = range(0)
    for units in groups.launches:
        heads = range(units.start * group, units.stop * group)
        rows.between(done, heads, found.query, problem.scale)
        _launch(problem, form, (*given, found.key, found.value), rows, units, groups.together)
        done = heads
    rows.between(done, range(0), found.query, problem.scale)
    return found


def form_of(problem: KernelProblem) -> BackwardForm:
    """The kernel for a problem."""
    return backward_form(max(problem.query.shape[-1], problem.value.shape[-1]))


def groups_for(problem: KernelProblem) -> Groups:
    """Launches whose sums stay in L2, where that costs no time."""
    form, device = form_of(problem), problem.query.device
    padded, seen = -(-problem.queries // form.rows) * form.rows, problem.visible
    steps = []
    for first in range(0, problem.keys, form.keys):
        last = min(first + form.keys, problem.keys)
        start, stop = max(first - seen.above, 0), min(last - seen.below, problem.queries)
        steps.append(problem.group * max(0, -(-stop // form.rows) - start // form.rows))
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
    return groups_of(problem.batch, problem.kv_heads, tuple(steps), 4 * problem.group * padded * form.d, processors)


def _launch(
    problem: KernelProblem, form: BackwardForm, tensors: tuple[Tensor, ...], rows: Rows, units: range, together: int
) -> None:
    """Gradients of some units, from and to (batch, heads, tokens, width) of queries, keys, values, dO, dK and dV."""
    query, key, value, gradient, key_gradient, value_gradient = (_of(tensor, units, problem) for tensor in tensors)
    assert rows.sums is not None
    below, above, scale = restrictions_of(problem, problem.scale * LOG2_E).band
    counters = torch.zeros(rows.lse.numel() // form.rows + 32, dtype=torch.int32, device=query.device)
    form.kernel[(-(-problem.keys // form.keys) * len(units),)](
        boxed(query, form.rows, form.d), boxed(key, 64, form.d), boxed(value, 64, form.d),
        boxed(gradient, form.rows, form.d), boxed(key_gradient, 64, form.d), boxed(value_gradient, 64, form.d),
        boxed(rows.sums.view(1, 1, -1, 64), 64, 64, 0), rows.lse, rows.delta, counters,
        scale, problem.scale, len(units), int(key.shape[1]), problem.group,
        problem.queries, problem.keys, below, above, rows.padded, together,
        ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots, HIDES=hides(problem),
        ORDERED=problem.deterministic, REGISTERS=form.registers, num_warps=4, maxnreg=168,
    )  # fmt: skip


def _of(tensor: Tensor, units: range, problem: KernelProblem) -> Tensor:
    """The heads of some units, which are heads of one sequence or all heads of some."""
    sequence, first = divmod(units.start, problem.kv_heads)
    if first == 0 and len(units) % problem.kv_heads == 0:
        return tensor[sequence : sequence + len(units) // problem.kv_heads]
    each = tensor.shape[1] // problem.kv_heads
    return tensor[sequence : sequence + 1, first * each : (first + len(units)) * each]
