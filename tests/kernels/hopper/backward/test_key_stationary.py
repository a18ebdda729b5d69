"""The backward pass as the host launches it, in groups of heads that share dQ accumulators, all of it interpreted."""

import pytest
import torch
from interpreted_backward import interpret

from attenio.kernels import cpu
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper.backward import group_parts, key_stationary
from attenio.kernels.hopper.backward.config import config_of
from attenio.kernels.hopper.backward.fixed_point import Maxima
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups

# Sequences, KV heads, group, queries, keys, d, width, above; heads of each launch, how many come together, streams.
CASES = {
    "some heads at a time": (2, 3, 1, 150, 130, 64, 64, UNBOUNDED, (4, 2), 1, 1),
    "in turns": (3, 2, 2, 100, 200, 64, 40, 20, (1, 5), 3, 2),
    "all at once": (1, 2, 1, 140, 300, 72, 40, 0, (2,), 2, 1),
    "on two streams": (2, 2, 2, 70, 150, 64, 64, UNBOUNDED, (1, 2, 1), 1, 2),
    "more streams than launches": (1, 2, 1, 70, 90, 128, 128, 0, (1, 1), 1, 3),
}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_launches_that_share_accumulators_give_the_gradients_of_the_cpu(case, deterministic, monkeypatch):
    batch, kv_heads, group, queries, keys, d, width, above, sizes, together, streams = CASES[case]
    torch.manual_seed(0)
    shapes = ((kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, width))
    q, k, v = (torch.randn(batch, *shape).to(torch.bfloat16) for shape in shapes)
    gradient = torch.randn(batch, kv_heads, group, queries, width).to(torch.bfloat16)
    seen = Visibility(group=group, above=above)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, d**-0.5)
    attended = cpu.attend(exactly)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5, deterministic=deterministic)
    launches = tuple(range(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes)))
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    launched, scanned = interpret(monkeypatch), []
    compute = Maxima.compute
    monkeypatch.setattr(Maxima, "compute", lambda maxima, heads: (scanned.append(heads), compute(maxima, heads)))
    gradients = key_stationary_gradients(problem, saved, LaunchGroups(launches, together, streams))
    assert launched == [config_of(problem).kernel.__name__] * len(launches)
    # Maxima of heads whose launches overlap are computed before them.
    assert scanned == ([] if not deterministic else list(launches) if streams == 1 else [range(batch * kv_heads)])
    for mine, theirs in zip(gradients[:3], right[:3], strict=True):
        assert (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()


@pytest.mark.parametrize("d, above, tried", [(64, 0, (2, 3, 6)), (96, UNBOUNDED, (3,))])
def test_parts_of_a_group_give_the_gradients_of_the_cpu(d, above, tried, monkeypatch):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, 150, d).to(torch.bfloat16) for heads in (12, 2, 2))
    gradient, seen = torch.randn(1, 2, 6, 150, d).to(torch.bfloat16), Visibility(group=6, above=above)
    exactly = KernelProblem.of_heads(q.double(), k.double(), v.double(), seen, d**-0.5)
    attended = cpu.attend(exactly)
    right = cpu.two_pass(exactly, cpu.Saved(*attended[:3], gradient.double()))
    saved = (attended.output.to(torch.bfloat16), attended.largest.float(), attended.total.float(), gradient)
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5)
    for module in (key_stationary, group_parts):
        monkeypatch.setattr(module, "processors_of", lambda _device: 132)
    assert key_stationary.parts_for(problem, config_of(problem)) == 6
    interpret(monkeypatch)
    for parts in tried:
        monkeypatch.setattr(key_stationary, "parts_for", lambda _problem, _config, parts=parts: parts)
        gradients = key_stationary_gradients(problem, saved)
        for mine, theirs in zip(gradients[:3], right[:3], strict=True):
            assert mine.shape == theirs.shape and (mine.double() - theirs).norm() <= 1e-2 * theirs.norm()
