"""How fast is attention() on this CPU beside scaled_dot_product_attention, and how near the floor?

    nice .venv/bin/python studies/cpu-attention/run.py

writes results.json beside this file: every sample of both, taken in turns in one process, and what made it;
``answer.py`` turns it into answer.md.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.measurement.timing import turn_samples

HERE = Path(__file__).parent
SEED = 0


@dataclass(frozen=True)
class Case:
    name: str
    target: float
    flops: float
    slow_bytes: float
    ours: Callable[[], object]
    theirs: Callable[[], object]
    repeats: int = 7


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def decode(dtype: torch.dtype, repeats: int, target: float) -> Case:
    q = torch.randn(1, 32, 1, 128).to(dtype)
    k, v = (torch.randn(1, 4, 32768, 128).to(dtype) for _ in "kv")
    both = (lambda: attention(q, k, v, enable_gqa=True), lambda: sdpa(q, k, v, enable_gqa=True))
    flops = 4 * 32 * 32768 * 128
    words = k.numel() + v.numel()
    name = f"GQA 8:1 decode, 32 heads, 32K keys, d=128, {dtype}"
    return Case(name, target, flops, words * k.element_size(), *both, repeats=repeats)


def prefill(dtype: torch.dtype, shape: tuple[int, int, int], causal: bool, target: float, repeats: int) -> Case:
    heads, n, d = shape
    q, k, v = (torch.randn(1, heads, n, d).to(dtype) for _ in range(3))
    both = (lambda: attention(q, k, v, is_causal=causal), lambda: sdpa(q, k, v, is_causal=causal))
    flops = 4 * heads * n * n * d / (2 if causal else 1)
    name = f"prefill, {heads} heads, n={n}, d={d}, {'causal' if causal else 'dense'}, {dtype}"
    return Case(name, target, flops, 4 * q.numel() * q.element_size(), *both, repeats=repeats)


def backward(heads: int, n: int, target: float) -> Case:
    q, k, v = (torch.randn(1, heads, n, 64, requires_grad=True) for _ in range(3))
    ours, theirs, g = attention(q, k, v), sdpa(q, k, v), torch.randn(1, heads, n, 64)
    both = (
        lambda: torch.autograd.grad(ours, (q, k, v), g, retain_graph=True),
        lambda: torch.autograd.grad(theirs, (q, k, v), g, retain_graph=True),
    )
    return Case(f"backward, {heads} heads, n={n}, d=64", target, 10 * heads * n * n * 64, 8 * 4 * q.numel(), *both, 5)


def prefix(dtype: torch.dtype, group: int, target: float, repeats: int) -> Case:
    requests, shared, own, d = 64, 8192, 64, 128
    q = torch.randn(requests, group, 1, d).to(dtype)
    k, v = (torch.randn(1, 1, shared + own, d).to(dtype).repeat(requests, 1, 1, 1) for _ in "kv")
    both = (
        lambda: attention(q, k, v, enable_gqa=True, prefix=shared),
        lambda: sdpa(q, k, v, enable_gqa=True),
    )
    flops = 4 * requests * group * (shared + own) * d
    slow = 2 * (shared + requests * own) * d * k.element_size()
    name = f"64 requests, shared 8K prefix, {group} query heads a KV head, d=128, {dtype}"
    return Case(name, target, flops, slow, *both, repeats=repeats)


def cases() -> list[Callable[[], Case]]:
    single, half, brain = torch.float32, torch.float16, torch.bfloat16
    return [
        lambda: decode(single, 9, 3.0),
        lambda: decode(brain, 2, 3.0),
        lambda: prefill(brain, (1, 1024, 64), False, 10.0, 3),
        lambda: prefill(half, (1, 1024, 64), False, 0.0, 3),
        lambda: backward(1, 2048, 3.0),
        lambda: backward(8, 1024, 0.0),
        lambda: prefix(single, 1, 8.0, 7),
        lambda: prefix(single, 8, 8.0, 5),
        lambda: prefix(brain, 1, 8.0, 2),
        lambda: prefill(single, (8, 2048, 64), False, 0.95, 5),
        lambda: prefill(single, (8, 2048, 128), False, 0.95, 5),
        lambda: prefill(single, (8, 2048, 64), True, 0.95, 5),
    ]


class Rates:
    """What the floors are made of, sampled between all cases: products of 1024 x 1024 x 1024, bytes read."""

    def __init__(self) -> None:
        self._left, self._right, self._long = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(2**26)
        self.flops_per_s: list[float] = []
        self.bytes_per_s: list[float] = []

    def sample(self) -> None:
        self.flops_per_s += [2 * 1024**3 / seconds(lambda: self._left @ self._right) for _ in range(4)]
        self.bytes_per_s += [4 * 2**26 / seconds(self._long.sum) for _ in range(3)]


def main() -> None:
    torch.manual_seed(SEED)
    rates, entries, made_by = Rates(), [], asdict(provenance())
    for make in cases():
        rates.sample()
        case = make()
        with torch.set_grad_enabled("backward" in case.name):
            case.ours(), case.theirs()
            samples = turn_samples({"attenio_ms": case.ours, "sdpa_ms": case.theirs}, repeats=case.repeats)
        rounded = {name: [round(each, 3) for each in given] for name, given in samples.items()}
        ratio = median(rounded["sdpa_ms"]) / median(rounded["attenio_ms"])
        entries.append((case, {"case": case.name, "target": case.target, "ratio": round(ratio, 2), **rounded}))
        print(f"{case.name}: {ratio:.2f}x (target {case.target})", flush=True)
    rates.sample()
    results = []
    for case, entry in entries:
        floor = max(case.flops / max(rates.flops_per_s), case.slow_bytes / max(rates.bytes_per_s)) * 1e3
        results.append(entry | {"floor_ms": round(floor, 3)})
    made = {"provenance": made_by, "seed": SEED, "torch": torch.__version__}
    made |= {"machine": platform.machine(), "threads": torch.get_num_threads()}
    made |= {"rates": {"flops_per_s": rates.flops_per_s, "bytes_per_s": rates.bytes_per_s}, "results": results}
    write_atomically(HERE / "results.json", json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
