"""The backward kernels' own source, interpreted, against the CPU kernels, which are held against the definition."""

import pytest
import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels import cpu
from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility

SERVICE = "attenio.kernels.gluon.backward_service"


class Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


def kernel_of(name):
    """A kernel of a module, interpreted; additions by the copy engine have no word in Gluon, and are said here."""
    module = interpreted(f"attenio.kernels.gluon.backward_{name}", needing=(SERVICE,))
    module.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
    module.all_added = lambda: None
    return getattr(module, f"{name}_gradients_kernel")


def run(problem, saved, form):
    """What the host does, with one kernel interpreted and those of single rows said in PyTorch."""
    output, largest, total, gradient = saved
    rows, heads = problem.batch * problem.kv_heads * problem.group, problem.kv_heads * problem.group
    padded = -(-problem.queries // 128) * 128
    lse, delta = torch.full((rows, padded), torch.inf), torch.zeros(rows, padded)
    lse[:, : problem.queries] = torch.where(total == 0, torch.inf, largest + total.log2()).flatten(0, 2)
    delta[:, : problem.queries] = (output.float() * gradient.float()).sum(-1).flatten(0, 2)
    sums = torch.zeros(1, 1, rows * padded * form.d // 64, 64)
    counters = torch.zeros(rows * padded // form.rows, dtype=torch.int32)
    wide = [torch.zeros(*x.shape[:-1], form.d, dtype=x.dtype) for x in (problem.key, problem.value)]
    q, g = problem.query.flatten(1, 2), gradient.flatten(1, 2)
    below, above = (max(-(2**30), min(2**30, x)) for x in (problem.visible.below, problem.visible.above))
    box, small = (1, 1, form.rows, form.d), (1, 1, 64, form.d)
    launch(
        kernel_of("narrow" if form.keys == 128 else "wide"),
        (-(-problem.keys // form.keys) * problem.batch * problem.kv_heads,),
        Box(q, box), Box(problem.key, small), Box(problem.value, small), Box(g, box), Box(wide[0], small),
        Box(wide[1], small), Sums(sums, (1, 1, 64, 64)), lse.flatten(), delta.flatten(), counters,
        problem.scale * backward.LOG2_E, problem.scale, problem.batch * problem.kv_heads, problem.kv_heads,
        problem.group, problem.queries, problem.keys, below, above, padded,
        ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots, HIDES=True,
        ORDERED=problem.deterministic, REGISTERS=form.registers,
    )  # fmt: skip
    # Tiles of 64 x 64 lie in memory as registers of a product hold them.
    sums = (
        sums.view(-1, 8, 4, 8, 4, 2, 2).permute(0, 2, 5, 3, 1, 4, 6).reshape(-1, form.d // 64, 64, 64).transpose(1, 2)
    )
    dq = (sums.reshape(problem.batch, heads, padded, form.d) * problem.scale)[:, :, : problem.queries, : q.shape[-1]]
    return dq, wide[0][..., : q.shape[-1]], wide[1][..., : problem.value.shape[-1]]


# Sequences, KV heads, group, queries, keys, d, width, below, above, deterministic.
CASES = {
    "one tile": (1, 1, 1, 128, 128, 64, 64, -UNBOUNDED, UNBOUNDED, False),
    "causal in groups": (5, 1, 2, 150, 300, 64, 64, -UNBOUNDED, 0, True),
    "ragged": (1, 2, 1, 200, 140, 128, 128, -UNBOUNDED, UNBOUNDED, True),
    "a window": (1, 1, 1, 333, 300, 96, 128, -100, -33, False),
    "wide": (1, 1, 1, 200, 140, 256, 256, -UNBOUNDED, UNBOUNDED, True),
    "wide, causal": (1, 1, 2, 150, 200, 192, 128, -UNBOUNDED, 20, False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_gives_the_gradients_of_the_cpu(case):
    batch, kv_heads, group, queries, keys, d, width, below, above, deterministic = CASES[case]
    torch.manual_seed(0)
    sizes = ((kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, width))
    q, k, v = (torch.randn(batch, *size).to(torch.bfloat16) for size in sizes)
    gradient = torch.randn(batch, kv_heads, group, queries, width).to(torch.bfloat16)
    seen = Visibility(group=group, below=below, above=above)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, d**-0.5)
    attended = cpu.attend(exactly)
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5, deterministic=deterministic)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    found = run(problem, saved, backward.backward_form(max(d, width)))
    for mine, theirs in zip(found, (right.query.flatten(1, 2), right.key, right.value), strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()
