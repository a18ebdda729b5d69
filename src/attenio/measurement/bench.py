"""``bench()``: ours and every peer present, timed side by side in one run, beside what the machine could do."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.replay import without_stand_ins
from attenio.measurement.contenders import Contender, contenders, random_inputs
from attenio.measurement.exact import Inputs, compared, exact_part
from attenio.measurement.record import Record
from attenio.measurement.result import Bench, Roof, Timing
from attenio.measurement.software import software_of
from attenio.measurement.timing import ROTATED_BYTES, Call, event_samples, turn_samples
from attenio.quantities import checked_count
from attenio.workload import Direction, Workload, refuse_forms

# Inputs that calls on a GPU take in turns, at most.
_MOST_SETS = 8
_MOST_REPEATS = 1000

Progress = Callable[[int, int], None]


@without_stand_ins()
def bench(
    workload: Workload,
    device: str,
    *,
    repeats: int = 7,
    flex: bool = False,
    record: Record | None = None,
    progress: Progress | None = None,
) -> Bench:
    """Time every contender; one that refuses the workload is listed with what it said.

    With a ``record`` they are kept in it as they are done, and those that it holds already are not timed again.
    """
    checked_count("repeats", repeats, most=_MOST_REPEATS)
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device is {device!r}; give cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InvalidInput("this PyTorch sees no NVIDIA GPU; leave --device cuda out to time the CPU")
    if workload.direction is Direction.TRAINING:
        raise InvalidInput("bench times one pass at a time; ask for --direction forward or --direction backward")
    refuse_forms(workload, "contenders are timed without")
    inputs, calls = random_inputs(workload, device), contenders(workload, device, flex=flex)
    software = software_of(device)
    timings = {} if record is None else record.finished(str(workload), device, software)
    wanted = {name: each for name, each in calls.items() if name not in timings}
    bench_so_far = Bench(workload=workload, device=device, software=software, roof=_roof(inputs), timings=())
    timed = _in_turns if device == "cpu" else _one_by_one
    for timing in timed(workload, inputs, wanted, repeats):
        timings[timing.name] = timing
        bench_so_far = replace(bench_so_far, timings=tuple(timings[name] for name in calls if name in timings))
        if record is not None:
            record.keep(bench_so_far)
        if progress is not None:
            progress(len(timings), len(calls))
    return replace(bench_so_far, timings=tuple(timings[name] for name in calls))


def _in_turns(workload: Workload, inputs: Inputs, calls: dict[str, Contender], repeats: int) -> Iterator[Timing]:
    """On a CPU contenders take turns, so that what disturbs one disturbs the others too."""
    exact, ready, checked = exact_part(workload, inputs), dict[str, Call](), list[Timing]()
    for name, each in calls.items():
        call, timing = _checked(workload, name, each, inputs, exact)
        checked.append(timing)
        if call is not None:
            ready[name] = call
    samples = turn_samples(ready, repeats=repeats)
    for timing in checked:
        yield replace(timing, samples_ms=tuple(samples.get(timing.name, ())))


def _one_by_one(workload: Workload, inputs: Inputs, calls: dict[str, Contender], repeats: int) -> Iterator[Timing]:
    """On a GPU one contender after the other, each through inputs that do not fit the cache together."""
    exact = exact_part(workload, inputs)
    size = sum(x.numel() * x.element_size() for x in inputs)
    sets = [inputs, *(random_inputs(workload, "cuda") for _ in range(min(_MOST_SETS - 1, ROTATED_BYTES // size)))]
    for name, each in calls.items():
        call, timing = _checked(workload, name, each, inputs, exact)
        if call is not None:
            try:
                ready = [call, *(_prepared(workload, each, other) for other in sets[1:])]
                samples = each.gpu_samples(ready, repeats=repeats)
                timing = replace(timing, samples_ms=tuple(samples))
            except Exception as problem:
                timing = replace(timing, refused=_said(problem))
        yield timing
        call = ready = None  # type: ignore[assignment]  # graphs hold on to their memory
        torch.cuda.empty_cache()


def _checked(
    workload: Workload, name: str, contender: Contender, inputs: Inputs, exact: tuple[Tensor, ...] | None
) -> tuple[Call | None, Timing]:
    """A call ready to be timed with its error, or what a contender says that cannot compute this."""
    try:
        call = _prepared(workload, contender, inputs)
        error = compared(workload, contender.tensors(call()), exact)
    except Exception as problem:  # compilers and libraries of five makers: whatever stops one must not stop the others
        return None, Timing(name=name, refused=_said(problem))
    return call, Timing(name=name, max_abs_error=error)


def _prepared(workload: Workload, contender: Contender, inputs: Inputs) -> Call:
    return (contender.backward if workload.direction is Direction.BACKWARD else contender.forward)(inputs)


def _said(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0][:120] if str(problem).strip() else "refused"


def _roof(inputs: Inputs) -> Roof:
    """The best of a few square products, and of a few copies.

    On a CPU in single precision and in the workload's type, which some compute faster; and of as many bytes as the
    inputs have as well, since these stay in its caches from one call to the next.
    """
    like = inputs[0]
    on_gpu = like.device.type == "cuda"
    if on_gpu:
        sides, sizes = [(8192, like.dtype)], [2**28]
    else:
        sides = [(512, torch.float32), (1024, torch.float32)]
        sides += [(512, like.dtype)] if like.dtype != torch.float32 else []
        own = sum(x.numel() * x.element_size() for x in inputs) // 4
        sizes = [2**24, min(2**24, max(2**10, own))]

    def fastest(call: Call) -> float:
        return min(event_samples(call, repeats=5) if on_gpu else turn_samples({"": call}, repeats=5)[""]) / 1e3

    flops, rates = [], []
    for side, dtype in sides:
        left, right = (torch.randn(side, side, device=like.device).to(dtype) for _ in range(2))
        flops.append(2 * side**3 / fastest(partial(torch.matmul, left, right)))
    for words in sizes:
        source = torch.randn(words, device=like.device)
        rates.append(2 * 4 * words / fastest(partial(torch.empty_like(source).copy_, source)))
    return Roof(flops_per_s=max(flops), bytes_per_s=max(rates))
