"""The backward pass as the host launches it, in groups of heads that share one buffer of sums, all of it interpreted."""

import pytest
import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels import cpu
from attenio.kernels.gluon import backward_forms, backward_groups, backward_sums
from attenio.kernels.gluon.backward_groups import Groups, groups_of
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility


class Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


class Kernel:
    """A kernel that is interpreted where the host launches it."""

    def __init__(self, name):
        module = interpreted(f"attenio.kernels.gluon.{name}", needing=("attenio.kernels.gluon.backward_service",))
        module.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
        self.function = module.narrow_gradients_kernel

    def __getitem__(self, grid):
        def call(*arguments, num_warps, maxnreg, **constants):
            boxes = (Sums(x.base, tuple(x.block_shape)) if hasattr(x, "block_shape") else x for x in arguments)
            launch(self.function, grid, *boxes, **constants)

        return call


# Sequences, KV heads, group, queries, keys, d, width, above; units of each launch, and how many come together.
CASES = {
    "heads of a sequence": (2, 3, 1, 150, 130, 64, 64, UNBOUNDED, ((2, 1) * 2, 1)),
    "whole sequences": (3, 2, 2, 100, 200, 64, 40, 20, ((4, 2), 3)),
    "all at once": (1, 2, 1, 140, 300, 72, 40, 0, ((2,), 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_launches_that_share_sums_give_the_gradients_of_the_cpu(case, monkeypatch):
    batch, kv_heads, group, queries, keys, d, width, above, (sizes, together) = CASES[case]
    torch.manual_seed(0)
    shapes = ((kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, width))
    q, k, v = (torch.randn(batch, *shape).to(torch.bfloat16) for shape in shapes)
    gradient = torch.randn(batch, kv_heads, group, queries, width).to(torch.bfloat16)
    seen = Visibility(group=group, above=above)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, d**-0.5)
    attended = cpu.attend(exactly)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5)
    form = backward_forms.backward_form(max(d, width))._replace(kernel=Kernel("backward_narrow"))
    monkeypatch.setattr(backward_sums, "backward_form", lambda _: form)
    launches = tuple(range(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes)))
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    monkeypatch.setattr(backward_sums, "groups_of", lambda *_: Groups(launches, together))
    found = backward_sums.sums_gradients(problem, saved)
    for mine, theirs in zip(found[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()
