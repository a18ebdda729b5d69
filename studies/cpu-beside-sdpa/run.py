"""Is attention() on this CPU ever slower than scaled_dot_product_attention?

    nice .venv/bin/python studies/cpu-beside-sdpa/run.py [--quick] [--processor-time] [--patient] [--seconds 170]

writes results.json beside this file: every sample of ours, of PyTorch's, of a function of Python that does nothing but
call PyTorch's, of one that does no more than is safe, and of PyTorch's once more, taken in alternating order in one
process, and what made it; ``answer.py`` turns it into answer.md. What PyTorch's misses beside itself is the noise of
the method.
A form is sampled for a quarter of a second: to stop as soon as a ratio is clear would stop at whatever is far off. All
of it takes about ten minutes on two quiet cores, ``--quick`` one. A window is given to PyTorch as a boolean mask made
before: it has no other way to say it. A growing cache has one key more at every call.
``--seconds`` ends after so many, and leaves what was measured in partial.json, from where the next run goes on: a
machine need not be quiet for all of it at once. A run that is interrupted goes on there as well. ``--every 20`` is a
first look at one form of twenty, which writes nothing. ``--missed`` samples forms below the goal longer.
``--processor-time`` is for a machine that others use: one thread, and the time that the processor gave to it.
``--patient`` waits until others leave the processors alone, and measures a form again where they did not meanwhile
(Linux counts their time); what they took is in the results.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention, explain
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent
PARTIAL = HERE / "partial.json"
SEED = 0
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
KINDS = ("dense", "causal", "boolean", "float", "groups", "cross", "decode", "growing", "window 64")
WAYS = ("no_grad", "inference", "step")
# Forms below the goal are sampled again for so long.
GOAL, SECONDS_AGAIN, ROUNDS_AGAIN = 0.97, 1.6, 6000
SECONDS_A_POINT = {False: 0.25, True: 0.05}
MOST_ROUNDS, LEAST_ROUNDS = 1000, 6
CALLS_BEFORE = 200
# What was measured is kept after so many forms.
KEPT_EVERY = 50
# Bounds of a median's 95 % confidence interval by the sign test, in standard deviations of ranks.
DEVIATIONS = 1.96
# Others leave a form alone that take less than this share of all processors meanwhile.
QUIET, MOST_TRIES, MOST_WAITS, WAIT_SECONDS = 0.05, 3, 10, 0.1


def interval(ratios: list[float]) -> tuple[float, float]:
    """Within which the median of what the ratios are drawn from lies with 95 % confidence, whatever their law is."""
    ordered, half = sorted(ratios), DEVIATIONS * len(ratios) ** 0.5 / 2
    low, high = int(len(ordered) / 2 - half), int(len(ordered) / 2 + half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


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
            if kind == "growing" and (way == "step" or n < 16):
                continue
            if way == "step" and n * n * heads > 2**21:
                continue
            if dtype == "fp32" or (way != "inference" and n in (1, 64, 256, 1024) and heads < 32 and kind != "cross"):
                yield Point(n, heads, dtype, kind, way)


def bare(*given: Any, **options: Any) -> Tensor:
    """What any function in Python costs that ends in PyTorch's: it hands on what it is given."""
    return sdpa(*given, **options)


def safe(  # noqa: PLR0913 - the signature of scaled_dot_product_attention
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The least that is safe: options are looked at, and whether there are as many values as keys.

    PyTorch's function reads past the end of values that are fewer. With as many bytes they have as many rows, for it
    does compare heads and widths. Options that say nothing are not handed on, which takes longer than to look at them.
    """
    if key.nbytes != value.nbytes or dropout_p != 0.0:
        raise ValueError("another function computes this")
    if enable_gqa or scale is not None:
        return sdpa(query, key, value, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    if is_causal:
        return sdpa(query, key, value, attn_mask, is_causal=True)
    return sdpa(query, key, value, attn_mask)


def calls(point: Point) -> tuple[dict[str, Callable[[], object]], str]:
    """Ours, theirs, the bare function, the safe one and theirs again, and what ours is explained as."""
    dtype, kv = DTYPES[point.dtype], max(1, point.heads // 4) if point.kind == "groups" else point.heads
    queries = 1 if point.kind in ("decode", "growing") else point.n
    keys = 2 * point.n if point.kind in ("cross", "growing") else point.n
    step = point.way == "step"
    shapes = (point.heads, queries), (kv, keys), (kv, keys)
    q, k, v = (torch.randn(1, h, n, 64).to(dtype).requires_grad_(step) for h, n in shapes)
    options: dict[str, Any] = {"is_causal": point.kind == "causal", "enable_gqa": kv != point.heads}
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)[None]
    mask = {"boolean": torch.rand(queries, keys) > 0.3, "float": torch.randn(queries, keys).to(dtype)}.get(point.kind)
    window = {"window": 64} if point.kind == "window 64" else {}
    theirs_mask = (columns <= rows) & (columns > rows - 64) if window else mask
    gradient = torch.randn(1, point.heads, queries, 64).to(dtype)

    def of(function: Callable[..., Tensor], mask: Tensor | None, **more: Any) -> Callable[[], object]:
        length = point.n

        def call() -> object:
            nonlocal length
            if point.kind == "growing":
                length = length + 1 if length < 2 * point.n else point.n
                return function(q, k[:, :, :length], v[:, :, :length], **options)
            output = function(q, k, v, mask, **options, **more)
            return torch.autograd.grad(output, (q, k, v), gradient) if step else output

        return call

    made = {"attenio_us": of(attention, mask, **window), "sdpa_us": of(sdpa, theirs_mask)}
    made |= {"bare_us": of(bare, theirs_mask), "safe_us": of(safe, theirs_mask), "again_us": of(sdpa, theirs_mask)}
    return made, explain(q, k, v, mask, **options, **window).choice.language


def sampled(point: Point, seconds: float, clock: Callable[[], float], most: int = MOST_ROUNDS) -> dict[str, Any]:
    """Samples of all in microseconds, one after the other, whoever is first changing from round to round."""
    with torch.inference_mode(point.way == "inference"), torch.set_grad_enabled(point.way == "step"):
        made, runs = calls(point)
        samples: dict[str, list[float]] = {name: [] for name in made}
        order = list(made.items())
        for _ in range(3):
            for _, call in order:
                call()
        start = clock()
        while len(samples["sdpa_us"]) < most:
            for name, call in order:
                before = clock()
                call()
                samples[name].append(round((clock() - before) * 1e6, 2))
            order = order[1:] + order[:1] if len(samples["sdpa_us"]) % 2 else order[::-1]
            done = len(samples["sdpa_us"])
            if done >= LEAST_ROUNDS and clock() - start > seconds:
                break
    ratios = {"ratio": rounds_of(samples, "sdpa_us"), "ratio_to_bare": rounds_of(samples, "bare_us")}
    found = {name: round(median(each), 3) for name, each in ratios.items()}
    low, high = interval(ratios["ratio"])
    found |= {"ratio_low": round(low, 3), "ratio_high": round(high, 3)}
    load = round(os.getloadavg()[0], 1)
    return {"point": asdict(point), "name": point.name, "runs": runs, "load": load, **found, **samples}


def seconds_of_others() -> float:
    """Processor time of everything but this process since the start, hypervisors included."""
    user, nice, system, _idle, _waiting, *more = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK") - time.process_time()


def share_of_others(function: Callable[[], Any]) -> tuple[float, Any]:
    """The share of all processors that others take while a function runs, and what it gives."""
    before, start = seconds_of_others(), time.perf_counter()
    given = function()
    seconds = (time.perf_counter() - start) * (os.cpu_count() or 1)
    return max(0.0, seconds_of_others() - before) / seconds, given


def sampled_in_quiet(point: Point, seconds: float, clock: Callable[[], float]) -> dict[str, Any]:
    """The samples that others disturbed least, of some tries."""
    tries = []
    while len(tries) < MOST_TRIES and (not tries or tries[-1][0] > QUIET):
        for _ in range(MOST_WAITS):
            if share_of_others(lambda: time.sleep(WAIT_SECONDS))[0] <= QUIET:
                break
        tries.append(share_of_others(lambda: sampled(point, seconds, clock)))
    least, found = min(tries, key=lambda each: each[0])
    return {**found, "others": round(least, 3)}


def rounds_of(samples: dict[str, list[float]], other: str) -> list[float]:
    """The other's time over ours, round by round: what disturbs a whole round is in both."""
    # the clock of a processor may stand still over a short call
    rounds = zip(samples[other], samples["attenio_us"], strict=True)
    return [theirs / ours for theirs, ours in rounds if ours > 0.0]


def look(some: list[Point], measure: Callable[[Point], dict[str, Any]]) -> None:
    """Print how many microseconds each function takes more than PyTorch's in some forms, and their medians."""
    names, found = ("attenio_us", "bare_us", "safe_us", "again_us"), []
    for point in some:
        each = measure(point)
        rounds = [zip(each[name], each["sdpa_us"], strict=True) for name in names]
        found.append([median(ours - theirs for ours, theirs in pairs) for pairs in rounds])
        print(f"{point.name}: {each['ratio']:.2f}", *(f"{more:.1f}" for more in found[-1]), flush=True)
    for step in (False, True):
        mine = [each for point, each in zip(some, found, strict=True) if (point.way == "step") == step]
        if mine:
            columns = zip(*mine, strict=True)
            print("with gradients" if step else "without", *(f"{median(column):.1f}" for column in columns))


def begin() -> None:
    """Call it as often as a process has that is not in its first second: its front is compiled meanwhile."""
    rows = torch.randn(1, 1, 4, 16)
    for _ in range(CALLS_BEFORE):
        attention(rows, rows, rows)


def sample_missed_again(made: dict[str, Any], clock: Callable[[], float]) -> None:
    """Write again.json: medians and intervals of the forms whose median is below the goal in results.json, longer."""
    kept = json.loads((HERE / "results.json").read_text(encoding="utf-8"))["results"]
    rows = []
    for each in (each for each in kept if each["ratio"] < GOAL):
        found = sampled(Point(**each["point"]), SECONDS_AGAIN, clock, most=ROUNDS_AGAIN)
        itself = median(rounds_of({**found, "attenio_us": found["again_us"]}, "sdpa_us"))
        row = {name: found[name] for name in ("name", "runs", "load", "ratio", "ratio_low", "ratio_high")}
        rows.append(row | {"before": each["ratio"], "itself": round(itself, 3), "rounds": len(found["sdpa_us"])})
        print(f"{found['name']}: {each['ratio']:.3f}, now {found['ratio']:.3f}", flush=True)
    write_atomically(HERE / "again.json", json.dumps(made | {"results": rows}, indent=1) + "\n")


def main() -> None:
    torch.manual_seed(SEED)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer pairs a form, on a machine that others use too")
    parser.add_argument("--processor-time", action="store_true", help="of one thread, on a machine that others use too")
    parser.add_argument("--patient", action="store_true", help="wait for quiet, on a machine that others use at times")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many, to go on another time")
    parser.add_argument("--every", type=int, default=1, help="a first look at one form of so many; writes nothing")
    parser.add_argument("--missed", action="store_true", help="forms below the goal again, longer; writes again.json")
    asked = parser.parse_args()
    quick, clock = asked.quick, time.process_time if asked.processor_time else time.perf_counter
    if asked.processor_time:
        torch.set_num_threads(1)
    begin()
    made = {"provenance": asdict(provenance()), "seed": SEED, "torch": torch.__version__, "quick": quick}
    made |= {"machine": platform.machine(), "capability": torch.backends.cpu.get_cpu_capability()}
    made |= {"threads": torch.get_num_threads(), "processor_time": asked.processor_time}
    measure = partial(sampled_in_quiet if asked.patient else sampled, seconds=SECONDS_A_POINT[quick], clock=clock)
    if asked.missed:
        sample_missed_again(made, clock)
        return
    if asked.every > 1:
        look(list(points(quick=quick))[:: asked.every], measure)
        return
    known = json.loads(PARTIAL.read_text(encoding="utf-8")) if PARTIAL.exists() else {}
    if any(known.get(name) != made[name] for name in made if name != "provenance"):
        known = {}  # of something else
    results = known.get("results", [])
    done, end = {each["name"] for each in results}, time.perf_counter() + asked.seconds
    for point in points(quick=quick):
        if point.name in done:
            continue
        ends = time.perf_counter() > end
        if ends or len(results) % KEPT_EVERY == 0:
            write_atomically(PARTIAL, json.dumps(made | {"results": results}) + "\n")
        if ends:
            print(f"{len(results)} forms so far; run it again to go on")
            return
        results.append(measure(point))
        print(f"{point.name}: {results[-1]['ratio']:.2f}", flush=True)
    write_atomically(HERE / "results.json", json.dumps(made | {"results": results}) + "\n")
    PARTIAL.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
