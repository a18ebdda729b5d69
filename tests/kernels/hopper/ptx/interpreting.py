"""Heads whose outputs and gradients kernels in CUDA C++ compute, interpreted, as the host launches them."""

from contextlib import contextmanager
from typing import NamedTuple

import pytest
import torch
from tests.kernels.hopper.ptx.driver import InterpretingDriver

from attenio.kernels.call.packing import segment_ranges
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu import counters
from attenio.kernels.hopper import latent, launch_plans
from attenio.kernels.hopper.backward import config as config_module
from attenio.kernels.hopper.backward import key_stationary as long_heads
from attenio.kernels.hopper.backward import whole_heads
from attenio.kernels.hopper.backward.config import config_of
from attenio.kernels.hopper.cuda import attenio, key_stationary, split_latents
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.proving import forward_by_definition, gradients_by_definition

__all__ = ["Heads", "attended", "gradients", "latents", "off"]

_CACHED = attenio.launcher_of, key_stationary.launcher_of, split_latents.launcher_of, launch_plans.plan_of


class Heads(NamedTuple):
    """Batch, heads, KV heads, queries and keys; widths of keys and values; what is seen; and programs that run.

    ``packed`` are ends of packed sequences, of queries and of keys, for each of the batch or for all; ``window`` keys
    before and after a query's own are seen of these. So many heads come ``together``, else as many as the plan says.
    """

    shape: tuple[int, int, int, int, int]
    widths: tuple[int, int]
    above: int | None = None
    programs: int = 2
    below: int | None = None
    packed: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    is_causal: bool = False
    window: tuple[int, int] = (-1, -1)
    together: int | None = None

    @property
    def problem(self):
        drawn = torch.Generator().manual_seed(0)
        batch, heads, kv_heads, queries, keys = self.shape
        d, width = self.widths
        sizes = (heads, queries, d), (kv_heads, keys, d), (kv_heads, keys, width)
        each = (torch.randn(batch, *size, generator=drawn).bfloat16() for size in sizes)
        seen = {name: value for name, value in (("above", self.above), ("below", self.below)) if value is not None}
        if self.packed:
            pairs = (tuple(torch.tensor((0, *each)) for each in ends) for ends in self.packed)
            ranges = [segment_ranges(pair, queries, self.window, is_causal=self.is_causal) for pair in pairs]
            seen = dict(zip(("first", "stop"), map(torch.stack, zip(*ranges, strict=True)), strict=True))
        return KernelProblem.of_heads(*each, Visibility(group=heads // kv_heads, **seen), d**-0.5)


@contextmanager
def _interpreted(structure, programs, **options):
    """Launches are interpreted, on memory that is NaN where nothing was written."""
    with pytest.MonkeyPatch.context() as patched:
        InterpretingDriver(structure, **options).replace(patched)
        for module in (launch_plans, key_stationary, config_module, whole_heads, long_heads):
            patched.setattr(module, "processors_of", lambda _device: programs)
        patched.setattr(counters, "_of_streams", {})
        empty = torch.empty
        patched.setattr(torch, "empty", lambda *size, **given: _unwritten(empty(*size, **given)))
        for each in _CACHED:
            each.cache_clear()
        try:
            yield
            assert not any(each.any() for each in counters._of_streams.values()), "counters are left as they were"
        finally:
            for each in _CACHED:
                each.cache_clear()


def _unwritten(tensor):
    return tensor.fill_(torch.nan if tensor.dtype.is_floating_point else -(2**30))


def gradients(heads, *, whole, **options):
    """dQ, dK and dV as the host gets them, and by the definition; ``whole``: a program takes all keys of a head."""
    problem = heads.problem
    d_output = torch.randn(*problem.query.shape[:-1], heads.widths[1], generator=torch.Generator().manual_seed(1))
    saved = (*forward_by_definition(problem), d_output.bfloat16())
    with _interpreted(key_stationary.GradientWork, heads.programs, **options):
        config = config_of(problem)._replace(whole_heads=whole)
        compute = whole_heads.whole_heads_gradients if whole else long_heads.key_stationary_gradients
        mine = compute(problem, saved, config=config)
    return mine[:3], gradients_by_definition(problem, saved[-1])


def attended(heads, tiles, **options):
    """Output and log-sum-exp of rows, and the same by the definition: a kernel may take another anchor."""
    problem = heads.problem
    rows = problem.query.shape[:-1]
    with _interpreted(attenio.Work, heads.programs * tiles.cluster, cluster=tiles.cluster, **options):
        output = torch.empty((*rows, heads.widths[1]), dtype=problem.query.dtype)
        mine = Attended(output, torch.empty(rows), torch.empty(rows))
        plan = launch_plans.plan_of(ForwardKind.of(problem), tiles)
        launch_plans.launch(problem, mine, plan._replace(together=heads.together or plan.together))
    return _with_lse(*mine[:3]), _with_lse(*forward_by_definition(problem))


def latents(*, group, queries, keys, above, cluster, **options):
    """The same of queries that share a latent, whose keys are one run, in blocks that come in clusters."""
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, *size, 576, generator=drawn).bfloat16() for size in ((group, queries), (1, keys)))
    seen = Visibility(group=group, above=above)
    problem = KernelProblem.of_heads(query, key, key[..., :512], seen, 576**-0.5)
    tiles, split = split_latents.CudaLatentTiles(cluster=cluster, ahead=2), latent.Split(0, keys, keys, 1)
    with _interpreted(split_latents.LatentWork, 1, cluster=cluster, **options):
        mine = latent.attend(problem, latent._choice(latent.Shape.of(problem), split, tiles))
    return _with_lse(*mine[:3]), _with_lse(*forward_by_definition(problem))


def _with_lse(output, largest, total):
    return output, largest + torch.log2(total)


def off(mine, right):
    """The largest distance of one from the other, relative to its norm."""
    pairs = [(each.double().view(other.shape), other.double()) for each, other in zip(mine, right, strict=True)]
    return max(float((each - other).norm() / other.norm()) for each, other in pairs)
