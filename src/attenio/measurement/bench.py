"""``bench()``: ours and every peer present, timed side by side in one run, beside what the machine could do."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.measurement.contenders import OURS, Attention, Inputs, contenders, definition_rows, random_inputs
from attenio.measurement.timing import ROTATED_BYTES, event_samples, replayed_samples, turn_samples
from attenio.workload import Direction, Workload

__all__ = ["Bench", "Roof", "Timing", "bench"]

# Rows of the first sequence whose error is taken, and the most scores of which gradients are taken in double precision.
_CHECKED_ROWS = 64
_CHECKED_SCORES = 2**24

Progress = Callable[[int, int], None]
Gradients = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Roof:
    """What this device did in the same run: a square product, on a GPU in the workload's type, and a copy."""

    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class Timing:
    """All samples of one contender and its largest error against float64, or why it refused."""

    name: str
    samples_ms: tuple[float, ...] = ()
    max_abs_error: float | None = None
    refused: str | None = None

    @property
    def median_ms(self) -> float | None:
        """The middle sample."""
        return median(self.samples_ms) if self.samples_ms else None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Contenders for one workload on one device, ours first."""

    workload: Workload
    device: str
    device_name: str
    roof: Roof
    timings: tuple[Timing, ...]

    def tflop_per_s(self, timing: Timing) -> float | None:
        """Required operations by the middle sample's time."""
        return None if timing.median_ms is None else self.workload.flops / timing.median_ms / 1e9

    def gb_per_s(self, timing: Timing) -> float | None:
        """Inputs and outputs, each once, by the middle sample's time."""
        return None if timing.median_ms is None else self._bytes / timing.median_ms / 1e6

    def share_of_roof(self, timing: Timing) -> float | None:
        """The time that the measured roof leaves, over the time taken."""
        if timing.median_ms is None:
            return None
        least = max(self.workload.flops / self.roof.flops_per_s, self._bytes / self.roof.bytes_per_s)
        return least * 1e3 / timing.median_ms

    @property
    def ratio_to_best_peer(self) -> float | None:
        """The best peer's median over ours: above 1 ours is faster."""
        times = {each.name: each.median_ms for each in self.timings if each.median_ms is not None}
        ours = times.pop(OURS, None)
        return min(times.values()) / ours if ours and times else None

    @property
    def _bytes(self) -> int:
        return self.workload.compulsory_words * self.workload.dtype.bytes

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers; every sample is kept."""
        return {
            "workload": str(self.workload),
            "device": self.device,
            "device_name": self.device_name,
            "torch": torch.__version__,
            "roof": {"flops_per_s": self.roof.flops_per_s, "bytes_per_s": self.roof.bytes_per_s},
            "ratio_to_best_peer": self.ratio_to_best_peer,
            "contenders": [
                {
                    "name": each.name,
                    "median_ms": each.median_ms,
                    "tflop_per_s": self.tflop_per_s(each),
                    "gb_per_s": self.gb_per_s(each),
                    "share_of_roof": self.share_of_roof(each),
                    "max_abs_error": each.max_abs_error,
                    "refused": each.refused,
                    "samples_ms": list(each.samples_ms),
                }
                for each in self.timings
            ],
        }


def bench(
    workload: Workload, device: str, *, repeats: int = 7, flex: bool = False, progress: Progress | None = None
) -> Bench:
    """Time every contender; one that refuses the workload is listed with what it said."""
    if workload.direction is Direction.TRAINING:
        raise InvalidInput("bench times one pass at a time; ask for --direction forward or --direction backward")
    inputs, calls = random_inputs(workload, device), contenders(workload, device, flex=flex)
    steps = len(calls) + 1
    backward = workload.direction is Direction.BACKWARD
    exact = _exact(workload, inputs)
    ready: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float | None] = {}
    refused: dict[str, str] = {}
    for done, (name, call) in enumerate(calls.items(), 1):
        try:
            ready[name] = _backward_call(call, inputs) if backward else _forward_call(call, inputs)
            found = ready[name]()
            errors[name] = _error(found if backward else (found[:1, :, -_CHECKED_ROWS:],), exact)
        except (RuntimeError, ValueError) as problem:  # a backend that refuses a shape is no contender
            ready.pop(name, None)
            refused[name] = str(problem).strip().splitlines()[0][:120] if str(problem).strip() else "refused"
        if progress is not None:
            progress(done, steps)
    samples = _samples(workload, device, {name: calls[name] for name in ready}, ready, repeats)
    if progress is not None:
        progress(steps, steps)
    return Bench(
        workload=workload,
        device=device,
        device_name=torch.cuda.get_device_name() if device == "cuda" else "CPU",
        roof=_roof(inputs[0]),
        timings=tuple(
            Timing(
                name=name,
                samples_ms=tuple(samples.get(name, ())),
                max_abs_error=errors.get(name),
                refused=refused.get(name),
            )
            for name in calls
        ),
    )


def _samples(
    workload: Workload, device: str, calls: dict[str, Attention], ready: dict[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    if device == "cpu":
        return turn_samples(ready, repeats=repeats)
    if workload.direction is Direction.BACKWARD:
        return {name: event_samples(call, repeats=repeats) for name, call in ready.items()}
    one = random_inputs(workload, device)
    size = sum(x.numel() * x.element_size() for x in one)
    sets = [one, *(random_inputs(workload, device) for _ in range(min(7, ROTATED_BYTES // size)))]
    return {
        name: replayed_samples([_forward_call(call, each) for each in sets], repeats=repeats)
        for name, call in calls.items()
    }


def _forward_call(call: Attention, inputs: Inputs) -> Callable[[], Tensor]:
    def forward() -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    return forward


def _backward_call(call: Attention, inputs: Inputs) -> Callable[[], Gradients]:
    """Gradients of an output made beforehand, for a gradient of ones."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    output = call(*leaves)  # type: ignore[arg-type, unused-ignore]
    ones = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, leaves, ones, retain_graph=True)


def _exact(workload: Workload, inputs: Inputs) -> Gradients | None:
    """What is compared: the last rows of the first sequence, or all gradients where they are few enough."""
    if workload.direction is Direction.FORWARD:
        return (definition_rows(workload, inputs, slice(-min(_CHECKED_ROWS, workload.queries), None)),)
    if workload.heads * workload.queries * workload.keys > _CHECKED_SCORES or workload.batch > 1:
        return None
    q, k, v = (x.double().requires_grad_() for x in inputs)
    output = definition_rows(workload, (q, k, v), slice(0, None))
    found: Gradients = torch.autograd.grad(output.sum(), (q, k, v))
    return found


def _error(found: Gradients, exact: Gradients | None) -> float | None:
    if exact is None:
        return None
    return max(float((x.double() - y).abs().max()) for x, y in zip(found, exact, strict=True))


def _roof(like: Tensor) -> Roof:
    """The best of a few square products, and of a few copies."""
    on_gpu = like.device.type == "cuda"
    side, words = (8192, 2**28) if on_gpu else (512, 2**24)
    # CPUs compute reduced types in single precision, and may have no fast product for anything else.
    dtype = like.dtype if on_gpu else torch.float32
    left, right = (torch.randn(side, side, device=like.device).to(dtype) for _ in range(2))
    source = torch.randn(words, device=like.device)
    into = torch.empty_like(source)
    best = [
        min(event_samples(call, repeats=5) if on_gpu else turn_samples({"": call}, repeats=5)[""])
        for call in (lambda: left @ right, lambda: into.copy_(source))
    ]
    return Roof(flops_per_s=2 * side**3 / best[0] * 1e3, bytes_per_s=2 * 4 * words / best[1] * 1e3)
