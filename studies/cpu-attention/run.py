"""How fast is attention() on this CPU beside scaled_dot_product_attention, and how near the floor?

    nice .venv/bin/python studies/cpu-attention/run.py

writes results.json beside this file: every sample of all contenders, taken in turns in one process with one thread to a
core, and what made it; ``answer.py`` turns it into answer.md. What has been measured is kept in partial.json until the
end: a run that was stopped goes on from there.
"""

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention
from attenio.files import write_atomically
from attenio.kernels.cpu import compiled_rows
from attenio.kernels.cpu.workers import run_all
from attenio.measurement.provenance import provenance
from attenio.measurement.timing import turn_samples

HERE = Path(__file__).parent
SEED = 0
single, half, brain = torch.float32, torch.float16, torch.bfloat16
Calls = tuple[Callable[[], object], Callable[[], object]]


@dataclass(frozen=True)
class Case:
    """What is timed; ``make`` gives ours and theirs. A target of 0 is none."""

    name: str
    target: float
    flops: float
    slow_bytes: float
    make: Callable[[], Calls]
    repeats: int = 9
    few_rows: bool = False
    gradient: bool = False


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def decode(shape: tuple[int, int, int, int], dtype: torch.dtype, target: float = 0.0, repeats: int = 9) -> Case:
    batch, heads, kv_heads, d = shape

    def make() -> Calls:
        q = torch.randn(batch, heads, 1, d).to(dtype)
        k, v = (torch.randn(batch, kv_heads, 32768, d).to(dtype) for _ in "kv")
        return lambda: attention(q, k, v, enable_gqa=True), lambda: sdpa(q, k, v, enable_gqa=True)

    many = "" if batch == 1 else f"{batch} sequences, "
    name = f"GQA 8:1 decode, 32K keys, {many}{heads}/{kv_heads} heads, d={d}, {_short(dtype)}"
    words = 2 * batch * kv_heads * 32768 * d
    return Case(name, target, 4 * batch * heads * 32768 * d, words * dtype.itemsize, make, repeats, few_rows=True)


def prefix(
    shape: tuple[int, int, int], dtype: torch.dtype, target: float = 0.0, repeats: int = 7, own: int = 64
) -> Case:
    heads, kv_heads, d = shape
    requests, shared = 64, 8192

    def make() -> Calls:
        q = torch.randn(requests, heads, 1, d).to(dtype)
        k, v = (torch.randn(1, kv_heads, shared + own, d).to(dtype) for _ in "kv")
        spread = (requests, -1, -1, -1)
        k, v = (x.repeat(requests, 1, 1, 1) if own else x.expand(spread) for x in (k, v))
        return lambda: attention(q, k, v, enable_gqa=True, prefix=shared), lambda: sdpa(q, k, v, enable_gqa=True)

    kept = (
        f"{own} keys of their own, each a copy of the prefix" if own else "the prefix stored once, no keys of their own"
    )
    name = f"64 requests, shared 8K prefix, {heads}/{kv_heads} heads, d={d}, {_short(dtype)}, {kept}"
    slow = 2 * kv_heads * (shared + requests * own) * d * dtype.itemsize
    return Case(name, target, 4 * requests * heads * (shared + own) * d, slow, make, repeats, few_rows=True)


def prefill(
    dtype: torch.dtype, shape: tuple[int, int, int], target: float, repeats: int, *, causal: bool = False
) -> Case:
    heads, n, d = shape

    def make() -> Calls:
        q, k, v = (torch.randn(1, heads, n, d).to(dtype) for _ in range(3))
        return lambda: attention(q, k, v, is_causal=causal), lambda: sdpa(q, k, v, is_causal=causal)

    name = f"prefill, {heads} heads, n={n}, d={d}, {'causal' if causal else 'dense'}, {_short(dtype)}"
    flops = 4 * heads * n * n * d / (2 if causal else 1)
    return Case(name, target, flops, 4 * heads * n * d * dtype.itemsize, make, repeats)


def backward(heads: int, n: int, target: float, dtype: torch.dtype = single, repeats: int = 5) -> Case:
    def make() -> Calls:
        q, k, v = (torch.randn(1, heads, n, 64).to(dtype).requires_grad_() for _ in range(3))
        ours, theirs, g = attention(q, k, v), sdpa(q, k, v), torch.randn(1, heads, n, 64).to(dtype)
        return (
            lambda: torch.autograd.grad(ours, (q, k, v), g, retain_graph=True),
            lambda: torch.autograd.grad(theirs, (q, k, v), g, retain_graph=True),
        )

    name, words = f"backward, {heads} heads, n={n}, d=64, {_short(dtype)}", 8 * heads * n * 64
    return Case(name, target, 10 * heads * n * n * 64, dtype.itemsize * words, make, repeats, gradient=True)


def cases() -> list[Case]:
    return [
        decode((1, 32, 4, 128), single, 3.0),
        decode((1, 32, 4, 128), brain, 3.0, repeats=2),
        decode((1, 32, 4, 128), half, repeats=3),
        decode((1, 8, 1, 128), single),
        decode((4, 32, 4, 128), single, repeats=5),
        decode((1, 32, 4, 64), single),
        decode((1, 8, 1, 64), single),
        prefill(brain, (1, 1024, 64), 10.0, 3),
        prefill(half, (1, 1024, 64), 0.0, 3),
        backward(1, 2048, 3.0),
        backward(1, 1024, 3.0, brain, 2),
        backward(8, 1024, 0.0),
        prefix((1, 1, 128), single, 8.0),
        prefix((1, 1, 128), brain, 8.0, repeats=2),
        prefix((4, 4, 128), single, repeats=5),
        prefix((8, 1, 128), single, repeats=5),
        prefix((1, 1, 64), single),
        prefix((1, 1, 128), single, own=0),
        prefill(single, (8, 2048, 64), 0.95, 5),
        prefill(single, (8, 2048, 128), 0.95, 5),
        prefill(single, (8, 2048, 64), 0.95, 5, causal=True),
    ]


def _short(dtype: torch.dtype) -> str:
    return {single: "fp32", half: "fp16", brain: "bf16"}[dtype]


class Rates:
    """What the floors are made of, sampled between all cases: products of 1024 x 1024 x 1024, bytes read."""

    def __init__(self) -> None:
        self._left, self._right, self._long = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(2**26)

    def sample(self) -> dict[str, list[float]]:
        return {
            "flops_per_s": [2 * 1024**3 / seconds(lambda: self._left @ self._right) for _ in range(4)],
            "bytes_per_s": [4 * 2**26 / seconds(self._long.sum) for _ in range(3)],
        }


@contextmanager
def without_compiling() -> Iterator[None]:
    """As where llvmlite is not installed."""
    found, compiled_rows._is_here = compiled_rows._is_here, lambda: False  # type: ignore[assignment]
    try:
        yield
    finally:
        compiled_rows._is_here = found


def one_thread_to_a_core() -> bool:
    """Threads of PyTorch and ours each stay on a core: left alone, two were seen to share one for seconds."""
    if not hasattr(os, "sched_setaffinity") or torch.get_num_threads() != len(os.sched_getaffinity(0)):
        return False
    cores, square = sorted(os.sched_getaffinity(0)), torch.randn(512, 512)
    run_all(lambda _: square @ square, range(4 * len(cores)))
    square @ square
    ours = {thread.native_id: thread.name for thread in threading.enumerate()}
    others = 0
    for task in sorted(int(entry.name) for entry in Path("/proc/self/task").iterdir()):
        if task == os.getpid():
            core = 0
        elif ours.get(task, "").startswith("attenio"):
            core = int(ours[task].rsplit("_", 1)[1])
        else:
            others += 1
            core = max(1, others % len(cores)) if len(cores) > 1 else 0
        os.sched_setaffinity(task, {cores[core % len(cores)]})
    return True


def measured(case: Case) -> dict[str, Any]:
    """The samples of a case, all contenders in turns; between them threads have time to fall asleep."""
    with torch.set_grad_enabled(case.gradient):
        ours, theirs = case.make()
        calls = {"attenio_ms": ours, "sdpa_ms": theirs}
        if case.few_rows:

            def library() -> object:
                with without_compiling():
                    return ours()

            calls["without_llvmlite_ms"] = library
        for call in calls.values():
            call()
        samples = turn_samples(calls, repeats=case.repeats, after_each=lambda: time.sleep(0.01))
    return {name: [round(each, 3) for each in given] for name, given in samples.items()}


def main() -> None:
    torch.manual_seed(SEED)
    partial, made_by = HERE / "partial.json", asdict(provenance())
    kept: dict[str, Any] = json.loads(partial.read_text()) if partial.exists() else {}
    if kept.get("provenance") != made_by:
        kept = {"provenance": made_by, "cases": {}}
    pinned, rates = one_thread_to_a_core(), Rates()
    for case in cases():
        if case.name in kept["cases"]:
            continue
        found = {"rates": rates.sample(), "samples": measured(case)}
        kept["cases"][case.name] = found
        write_atomically(partial, json.dumps(kept))
        ratio = median(found["samples"]["sdpa_ms"]) / median(found["samples"]["attenio_ms"])
        print(f"{case.name}: {ratio:.2f}x (target {case.target})", flush=True)
    every = [found["rates"] for found in kept["cases"].values()] + [rates.sample()]
    joined = {name: [each for sampled in every for each in sampled[name]] for name in every[0]}
    results = []
    for case in cases():
        samples = kept["cases"][case.name]["samples"]
        floor = max(case.flops / max(joined["flops_per_s"]), case.slow_bytes / max(joined["bytes_per_s"])) * 1e3
        ratio = median(samples["sdpa_ms"]) / median(samples["attenio_ms"])
        entry = {"case": case.name, "target": case.target, "ratio": round(ratio, 2), "floor_ms": round(floor, 3)}
        results.append(entry | samples)
    made = {"provenance": made_by, "seed": SEED, "torch": torch.__version__}
    made |= {"machine": platform.machine(), "threads": torch.get_num_threads(), "one_thread_to_a_core": pinned}
    made |= {"rates": joined, "results": results}
    write_atomically(HERE / "results.json", json.dumps(made, indent=1) + "\n")
    partial.unlink()


if __name__ == "__main__":
    main()
