"""How long does a Hopper GPU take for a row tile and for each of its key tiles, with every tiles that fit an SM?

    PYTHONPATH=src python studies/hopper-tiles/run.py [--into FOLDER] [--commit NAME] [--only D/V ...]

compiles every variant of the forward kernel (in several processes), times each at three lengths, full and causal, and
writes results.json: GPU times only, replays of CUDA graphs, every sample, and what made it. What was measured at the
same commit is not measured again; with ``--only``, heads of other widths stay as they are. ``answer.py`` fits two times
to the samples of each variant and writes answer.md, and with ``--ship`` the table that ``attention()`` ranks tiles by,
``kernels/hopper/tile_times.json``.
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton

from attenio.files import write_atomically
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import launch_plans
from attenio.kernels.hopper.cuda.tiles import cuda_tiles
from attenio.kernels.hopper.tiles import WIDTHS, HopperTiles, possible_tiles
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu, software_of

PAIRS = (*((width, width) for width in WIDTHS), (192, 128))
# Multiples of every row tile and of every key tile of Gluon, so that no tile is cut off.
LENGTHS = (384, 1536, 12288)
ROWS = 614_400
REPEATS, REPLAYED_MS = 7, 4.0
SEED = 0


class Variant(NamedTuple):
    """A kernel to compile, and to time at every length."""

    d: int
    width: int
    causal: bool
    tiles: HopperTiles

    @property
    def name(self) -> str:
        tiles = ", ".join(f"{name}={value}" for name, value in asdict(self.tiles).items())
        return f"{self.d}/{self.width} {'causal' if self.causal else 'full'}, {self.tiles.language}: {tiles}"


def variants() -> Iterator[Variant]:
    for d, width in PAIRS:
        for causal in (False, True):
            for tiles in (*possible_tiles(d, width), *cuda_tiles(d, width)):
                yield Variant(d, width, causal, tiles)


def problem_of(variant: Variant, n: int, heads: int) -> tuple[KernelProblem, Attended]:
    d, width = variant.d, variant.width
    q, k, v = (torch.randn(1, heads, n, columns, device="cuda").bfloat16() for columns in (d, d, width))
    visible = Visibility(group=1, above=0) if variant.causal else Visibility(group=1)
    problem = KernelProblem.of_heads(q, k, v, visible, d**-0.5)
    shape = problem.query.shape[:-1]
    output = torch.empty((*shape, width), device="cuda", dtype=q.dtype)
    return problem, Attended(output, *(torch.empty(shape, device="cuda") for _ in range(2)))


def compile_only(variant: Variant) -> str | None:
    """Run it once on little; what cannot be launched is told."""
    try:
        launch_plans.run(*problem_of(variant, LENGTHS[0], 2), variant.tiles)
        torch.cuda.synchronize()
    except (RuntimeError, triton.runtime.errors.OutOfResources) as problem:
        return (str(problem).splitlines() or [type(problem).__name__])[0][:120]
    return None


def samples_ms(variants: list[Variant], n: int) -> list[list[float]]:
    """Milliseconds of launches on so many rows of every variant: one sample a replay, and variants in turns, so that
    the clock, which falls with the power that is drawn, is the same for all."""
    problem, attended = problem_of(variants[0], n, ROWS // n)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    replays = []
    for variant in variants:
        with torch.cuda.stream(stream):
            launch_plans.run(problem, attended, variant.tiles)
            before.record()
            launch_plans.run(problem, attended, variant.tiles)
            after.record()
        torch.cuda.synchronize()
        count = max(1, round(REPLAYED_MS / before.elapsed_time(after)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                launch_plans.run(problem, attended, variant.tiles)
        replays.append((graph, count))
    samples: list[list[float]] = [[] for _ in variants]
    for _ in range(REPEATS + 1):
        for (graph, count), taken in zip(replays, samples, strict=True):
            before.record()
            graph.replay()
            after.record()
            after.synchronize()
            taken.append(before.elapsed_time(after) / count)
    return [taken[1:] for taken in samples]


@cache
def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    parser.add_argument(
        "--only", nargs="+", help="widths of keys and values, as 64/64: others stay as they were measured"
    )
    given = parser.parse_args()
    known = {f"{each.d}/{each.width}" for each in variants()}
    for widths in set(given.only or ()) - known:
        parser.error(f"--only {widths} names no widths of this study; use some of {' '.join(sorted(known))}")
    return given


def is_asked(d: int, width: int) -> bool:
    return not asked().only or f"{d}/{width}" in asked().only


def main() -> None:
    file = asked().into / "results.json"
    expect_gpu()
    made = asdict(provenance())
    made["commit"] = asked().commit or made["commit"]
    results: dict[str, Any] = {"variants": []}
    if file.exists():
        kept = json.loads(file.read_text())
        before = kept.get("provenance", {}).get("commit")
        results["variants"] = [
            {"commit": before} | entry
            for entry in kept["variants"]
            if not is_asked(entry["d"], entry["width"]) or entry.get("commit", before) == made["commit"]
        ]
    results["provenance"] = {
        **made, **software_of("cuda"), "device": torch.cuda.get_device_name(),
        "rows": ROWS, "lengths": LENGTHS, "seed": SEED,
    }  # fmt: skip
    done = {entry["name"] for entry in results["variants"]}
    left = [each for each in variants() if is_asked(each.d, each.width) and each.name not in done]
    print(f"{len(left)} variants to compile and time, seed {SEED}", flush=True)
    with multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 2)) as pool:
        refusals = pool.map(compile_only, left, chunksize=1)
    torch.manual_seed(SEED)
    told = dict(zip(left, refusals, strict=True))
    for form, members in groupby(left, key=lambda variant: variant[:3]):
        same = list(members)
        running = [variant for variant in same if told[variant] is None]
        taken = {n: samples_ms(running, n) for n in LENGTHS} if running else {}
        for variant in same:
            entry: dict[str, Any] = {
                "name": variant.name, "d": variant.d, "width": variant.width, "causal": variant.causal,
                "language": variant.tiles.language, "tiles": asdict(variant.tiles), "commit": made["commit"],
            }  # fmt: skip
            if told[variant] is None:
                entry["samples_ms"] = {str(n): taken[n][running.index(variant)] for n in LENGTHS}
            else:
                entry["refused"] = told[variant]
            results["variants"].append(entry)
        write_atomically(file, json.dumps(results, indent=1) + "\n")
        print(f"{form[0]}/{form[1]} {'causal' if form[2] else 'full'}: {len(same)} variants", flush=True)


if __name__ == "__main__":
    main()
