"""Whether results are right on this computer: seconds of the package's own laws, each against a second witness."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from attenio import Machine, Workload, best_plan, candidates, execute
from attenio.accelerator import simulate
from attenio.planning import Dataflow
from attenio.workload import Direction

_SMALL = Machine.with_fast_bytes("4KB")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A law, whether it held, what was found, and how long that took."""

    law: str
    held: bool
    found: str
    seconds: float


def self_check(progress: Callable[[int, int], None] | None = None) -> tuple[Check, ...]:
    """Every law in turn; a law that ends in an error has not held."""
    laws = {
        "plans move what runs count": _runs_count_what_is_planned,
        "outputs and gradients are those of float64": _outputs_are_right,
        "no dataflow moves less than its bound": _no_plan_beats_the_bound,
        "the accelerator moves what is planned": _simulations_move_what_is_planned,
        "attention() agrees with float64": _attention_is_right,
    }
    done = []
    for number, (law, check) in enumerate(laws.items(), 1):
        begin = time.perf_counter()
        try:
            held, found = check()
        except Exception as problem:
            held, found = False, f"{type(problem).__name__}: {problem}"
        done.append(Check(law=law, held=held, found=found, seconds=time.perf_counter() - begin))
        if progress is not None:
            progress(number, len(laws))
    return tuple(done)


def _problems() -> list[Workload]:
    masks = ("dense", "causal", "window:9")
    return [Workload(n=33, d=8, heads=2, kv_heads=1, mask=mask, dtype="fp32") for mask in masks]


def _runs_count_what_is_planned() -> tuple[bool, str]:
    runs = [
        (execute(each.plan), each.plan)
        for workload in _problems()
        for each in candidates(workload, _SMALL)
        if each.plan is not None
    ]
    wrong = sum(run.moved_words != plan.moved_words or run.peak_words != plan.peak_words for run, plan in runs)
    return wrong == 0, f"{len(runs)} runs, {wrong} with another count"


def _outputs_are_right() -> tuple[bool, str]:
    ways = (Direction.FORWARD, Direction.BACKWARD)
    errors = [
        execute(best_plan(workload.towards(way), _SMALL)).max_abs_error for workload in _problems() for way in ways
    ]
    return max(errors) < 1e-4, f"largest error {max(errors):.2g}"


def _no_plan_beats_the_bound() -> tuple[bool, str]:
    gaps = [each.plan.gap for workload in _problems() for each in candidates(workload, _SMALL) if each.plan is not None]
    return min(gaps) >= 1, f"smallest gap {min(gaps):.4g} of {len(gaps)}"


def _simulations_move_what_is_planned() -> tuple[bool, str]:
    done = [
        simulate(Workload(n=96, d=16, mask=mask), "attenio-64k", dataflow=dataflow)
        for mask in ("dense", "causal")
        for dataflow in (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2, Dataflow.STANDARD)
    ]
    wrong = sum(each.moved_words != each.plan.moved_words for each in done)
    return wrong == 0, f"{len(done)} simulations, {wrong} with another count"


def _attention_is_right() -> tuple[bool, str]:
    try:
        import torch
    except ImportError:
        return True, "not checked: PyTorch is not installed"
    from attenio.kernels import attention

    device = "cuda" if torch.cuda.is_available() else "cpu"
    errors = []
    for causal in (False, True):
        for queries in (1, 65):
            drawn = torch.Generator().manual_seed(0)
            q, k, v = (torch.randn(2, 4, n, 64, generator=drawn) for n in (queries, 65, 65))
            out = attention(q.to(device), k.to(device), v.to(device), is_causal=causal and queries > 1)
            scores = q.double() @ k.double().transpose(-1, -2) / 8
            if causal and queries > 1:
                scores = scores.masked_fill(torch.ones(65, 65, dtype=torch.bool).triu(1), float("-inf"))
            errors.append(float((out.double().cpu() - scores.softmax(-1) @ v.double()).abs().max()))
    of_gradients = _gradients_error()
    found = f"largest error {max(errors):.2g} in fp32 on {device}; of gradients {of_gradients:.2g} on cpu"
    return max(*errors, of_gradients) < 1e-2, found


def _gradients_error() -> float:
    """Of our own kernel on a CPU, which PyTorch differentiates by our rules: it has no attention with capped scores."""
    import torch

    from attenio.kernels import attention

    drawn = torch.Generator().manual_seed(0)
    *heads, gradient = (torch.randn(1, 2, 33, 16, generator=drawn) for _ in range(4))
    ours, theirs = (
        [each.detach().to(dtype).requires_grad_() for each in heads] for dtype in (torch.float32, torch.float64)
    )
    (attention(*ours, softcap=2.0) * gradient).sum().backward()
    q, k, v = theirs
    weights = (2 * torch.tanh(q @ k.transpose(-1, -2) / 8)).softmax(-1)
    (weights @ v * gradient).sum().backward()
    return max(float((mine.grad - right.grad).abs().max()) for mine, right in zip(ours, theirs, strict=True))
