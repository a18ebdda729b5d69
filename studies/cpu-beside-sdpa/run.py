"""Is attention() on this CPU ever slower than scaled_dot_product_attention?

    nice .venv/bin/python studies/cpu-beside-sdpa/run.py [--quick]

writes results.json beside this file: every sample of both, taken in alternating order in one process, and what made
it; ``answer.py`` turns it into answer.md. All of it takes about four minutes on two quiet cores, ``--quick`` a minute.
A window is given to PyTorch as a boolean mask made before: it has no other way to say it.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention, explain
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent
SEED = 0
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
KINDS = ("dense", "causal", "boolean", "float", "groups", "cross", "decode", "window 64")
WAYS = ("no_grad", "inference", "step")
SECONDS_A_POINT = {False: 0.25, True: 0.03}
MOST_PAIRS, LEAST_PAIRS = 400, 5


@dataclass(frozen=True)
class Point:
    """A form: ``step`` is a forward and a backward pass."""

    n: int
    heads: int
    dtype: str
    kind: str
    way: str

    @property
    def name(self) -> str:
        return f"{self.kind}, n={self.n}, {self.heads} heads, {self.dtype}, {self.way}"


def points(*, quick: bool) -> Iterator[Point]:
    """Every kind at every length in single precision; other types and ways at some."""
    lengths = (1, 64, 256) if quick else (1, 16, 64, 128, 256, 512, 1024, 4096)
    for n, heads, kind in product(lengths, (1, 8) if quick else (1, 4, 32), KINDS):
        if n * n * heads > 2**25:
            continue
        for dtype, way in product(DTYPES, WAYS):
            if way == "step" and n * n * heads > 2**21:
                continue
            if dtype == "fp32" or (way != "inference" and n in (1, 64, 256, 1024) and heads < 32 and kind != "cross"):
                yield Point(n, heads, dtype, kind, way)


def calls(point: Point) -> tuple[Callable[[], object], Callable[[], object], str]:
    """Ours, theirs, and what ours is explained as."""
    dtype, kv = DTYPES[point.dtype], max(1, point.heads // 4) if point.kind == "groups" else point.heads
    queries = 1 if point.kind == "decode" else point.n
    keys = 2 * point.n if point.kind == "cross" else point.n
    step = point.way == "step"
    shapes = (point.heads, queries), (kv, keys), (kv, keys)
    q, k, v = (torch.randn(1, h, n, 64).to(dtype).requires_grad_(step) for h, n in shapes)
    options: dict[str, Any] = {"is_causal": point.kind == "causal", "enable_gqa": kv != point.heads}
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)[None]
    mask = {"boolean": torch.rand(queries, keys) > 0.3, "float": torch.randn(queries, keys).to(dtype)}.get(point.kind)
    window = 64 if point.kind == "window 64" else None
    theirs_mask = mask if window is None else (columns <= rows) & (columns > rows - window)
    gradient = torch.randn(1, point.heads, queries, 64).to(dtype)

    def ours() -> object:
        output = attention(q, k, v, mask, **options, window=window)
        return torch.autograd.grad(output, (q, k, v), gradient) if step else output

    def theirs() -> object:
        output = sdpa(q, k, v, theirs_mask, **options)
        return torch.autograd.grad(output, (q, k, v), gradient) if step else output

    return ours, theirs, explain(q, k, v, mask, **options, window=window).choice.language


def sampled(point: Point, seconds: float) -> dict[str, Any]:
    """Samples of both in microseconds, one after the other, whoever is first changing from pair to pair."""
    samples: dict[str, list[float]] = {"attenio_us": [], "sdpa_us": []}
    with torch.inference_mode(point.way == "inference"), torch.set_grad_enabled(point.way == "step"):
        ours, theirs, runs = calls(point)
        order = [("attenio_us", ours), ("sdpa_us", theirs)]
        for _ in range(3):
            ours()
            theirs()
        start = time.perf_counter()
        while len(samples["sdpa_us"]) < MOST_PAIRS:
            for name, call in order:
                before = time.perf_counter()
                call()
                samples[name].append(round((time.perf_counter() - before) * 1e6, 2))
            order.reverse()
            if time.perf_counter() - start > seconds and len(samples["sdpa_us"]) >= LEAST_PAIRS:
                break
    ratio = median(samples["sdpa_us"]) / median(samples["attenio_us"])
    return {"point": asdict(point), "name": point.name, "runs": runs, "ratio": round(ratio, 3), **samples}


def main() -> None:
    torch.manual_seed(SEED)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer pairs a form, on a machine that others use too")
    quick = parser.parse_args().quick
    results = []
    for point in points(quick=quick):
        results.append(sampled(point, SECONDS_A_POINT[quick]))
        print(f"{point.name}: {results[-1]['ratio']:.2f}", flush=True)
    made = {"provenance": asdict(provenance()), "seed": SEED, "torch": torch.__version__, "quick": quick}
    made |= {"machine": platform.machine(), "capability": torch.backends.cpu.get_cpu_capability()}
    made |= {"threads": torch.get_num_threads(), "results": results}
    write_atomically(HERE / "results.json", json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
