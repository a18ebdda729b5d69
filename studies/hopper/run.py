"""Is dense attention on Hopper ahead of FlashAttention-4, cuDNN, FlashAttention-2, FlexAttention and JAX, in one run?

    PYTHONPATH=src python studies/hopper/run.py [--part forward] [--into FOLDER] [--commit NAME]

writes results.json: every sample of every contender, GPU time only (replays of CUDA graphs, contenders in turns of
every order, random inputs larger than the cache), the error of outputs and gradients against float64, and what made it.
A case that was measured at the same commit is not measured again, so that a run that was cut short goes on where it
stopped. ``answer.py`` turns the results into answer.md.

``cases.py``, ``others.py``, ``front_runner.py`` and ``sizes.py`` have the cases: a part is a function that gives them.
FlashAttention-4 takes part in the last two where ``flash_attn.cute`` can be imported. With ``--compile 14`` ours and
FlashAttention-4 compile for all cases first, in so many processes, and find their kernels on disk when measured.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton
from cases import OURS, SAME_BYTES, Case, backward, deterministic, forward
from front_runner import FLASH_4, front_runner, odd_forms
from others import others
from sizes import short_heads, single_precision, wide_heads, widths

from attenio.files import write_atomically
from attenio.kernels.replay import without_stand_ins
from attenio.measurement.graphs import captured, samples_in_turns
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu

SEED = 0
# FlashAttention-4 keeps what it compiled; it asks when it is first imported, which its first call does.
os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")
PARTS = {
    "forward": forward, "backward": backward, "deterministic": deterministic, "others": others,
    "front runner": front_runner, "odd forms": odd_forms, "widths": widths, "wide heads": wide_heads,
    "single precision": single_precision, "short heads": short_heads,
}  # fmt: skip
# Backward passes take longer, and vary less. Three contenders have six orders, four have 24.
REPEATS = {
    "forward": 24,
    "window": 18,
    "backward": 12,
    "deterministic": 12,
    "others": 12,
    "front runner": 12,
    "odd forms": 12,
    "widths": 12,
    "wide heads": 12,
    "single precision": 12,
    "short heads": 12,
}


@without_stand_ins()
def measured(case: Case) -> dict[str, Any]:
    inputs = case.inputs()
    found: dict[str, Any] = {}
    graphs, error = {}, None if case.error is None else case.error(inputs)
    calls = []  # a graph holds addresses only: the tensors behind them live as long as the calls do
    for name, prepare in case.contenders.items():
        try:
            call = prepare(inputs)
            calls.append(call)
            output = call()
            graphs[name] = captured(call)
        # A backend that refuses a shape is no contender, and each of them refuses in its own way.
        except (AssertionError, ImportError, RuntimeError, TypeError, ValueError) as problem:
            found[name] = {"refused": str(problem).splitlines()[0][:120]}
            continue
        found[name] = {}
        if error is not None and name != SAME_BYTES:
            found[name]["max_abs_error"] = error(output)
        del output
    wake(0.1)  # what was compiled since the last case left the GPU at rest
    for name, samples in samples_in_turns(graphs, repeats=REPEATS[case.part], seed=SEED).items():
        found[name]["samples_ms"] = samples
    del graphs, calls
    row = {"case": case.name, "part": case.part, "about": case.about, "target": case.target, "contenders": found}
    return compared(row, case.flops)


def compile_for(named: tuple[str, str]) -> None:
    """Run ours and FlashAttention-4 once for the case of this part and name; what is refused is told when measured."""
    part, name = named
    case = next(case for case in PARTS[part]() if case.name == name)
    inputs = case.inputs()
    for contender in {OURS, "flash-4"} & set(case.contenders):
        try:
            with without_stand_ins():
                case.contenders[contender](inputs)()
        except (AssertionError, ImportError, RuntimeError, TypeError, ValueError):
            continue
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def compared(row: dict[str, Any], flops: float) -> dict[str, Any]:
    """A row with medians, rates and the ratio to the fastest peer."""
    for entry in row["contenders"].values():
        if "samples_ms" in entry:
            entry["median_ms"] = statistics.median(entry["samples_ms"])
            entry["tflop_per_s"] = flops / entry["median_ms"] / 1e9
    medians = {name: entry["median_ms"] for name, entry in row["contenders"].items() if "median_ms" in entry}
    ours = medians.pop(OURS, None)
    medians.pop(SAME_BYTES, None)
    row["best_peer"] = min(medians, key=medians.__getitem__) if medians else None
    row["ratio_to_best_peer"] = medians[row["best_peer"]] / ours if medians and ours else None
    return row


def sampled(case: Case, row: dict[str, Any]) -> None:
    """Take the samples of contenders that come last."""
    for name, take in case.sampled.items():
        try:
            row["contenders"][name] = {"samples_ms": take()}
        except Exception as problem:  # whatever another library raises, the run goes on
            row["contenders"][name] = {"refused": (str(problem).splitlines() or ["refused"])[0][:120]}
    compared(row, case.flops)


def wake(seconds: float = 0.5) -> None:
    """Products for a moment: a GPU that has rested is measured at other clocks than one at work, as in a model."""
    square = torch.randn(8192, 8192, device="cuda").bfloat16()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        square @ square
        torch.cuda.synchronize()


def made_by(commit: str | None) -> dict[str, Any]:
    properties, named = torch.cuda.get_device_properties(0), asdict(provenance())
    return {
        **named, "commit": commit or named["commit"], "seed": SEED,
        "device": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__,
        "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "triton": triton.__version__,
        **({"flash_attn_4": FLASH_4} if FLASH_4 else {}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="measure this part only")
    parser.add_argument("--only", action="append", help="measure cases whose names have one of these in them only")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    parser.add_argument("--compile", type=int, default=0, metavar="N", help="compile in N processes first")
    parser.add_argument("--last-seconds", type=float, default=30.0, help="how long contenders that come last may take")
    given = parser.parse_args()
    if not given.into.is_dir():
        parser.error(f"--into {given.into} is no folder; create it first")
    expect_gpu()
    file, made = given.into / "results.json", made_by(given.commit)
    before = json.loads(file.read_text()) if file.exists() else {}
    rows = {row["case"]: row for row in before.get("cases", [])}
    runs = {**before.get("runs", {}), made["commit"]: made}  # what made the cases of every commit
    start = time.monotonic()

    def tell(row: dict[str, Any]) -> None:
        rows[row["case"]] = {**row, "commit": made["commit"]}
        ratio = "refused" if row["ratio_to_best_peer"] is None else f"{row['ratio_to_best_peer']:.3f}"
        print(f"{time.monotonic() - start:5.0f} s  {row['case']:<36} {ratio} to {row['best_peer']}", flush=True)
        write_atomically(
            file, json.dumps({"provenance": made, "runs": runs, "cases": list(rows.values())}, indent=1) + "\n"
        )
        torch.cuda.empty_cache()

    wanted = given.only or [""]
    named = [
        (part, case) for part in given.part or PARTS for case in PARTS[part]()
        if any(each in case.name for each in wanted)
    ]  # fmt: skip
    cases = [case for _, case in named]
    left = [(part, case) for part, case in named if rows.get(case.name, {}).get("commit") != made["commit"]]
    if given.compile:
        with multiprocessing.get_context("spawn").Pool(given.compile) as pool:
            pool.map(compile_for, [(part, case.name) for part, case in left], chunksize=1)
        print(f"{time.monotonic() - start:5.0f} s  compiled", flush=True)
    wake()
    for _, case in left:
        torch.manual_seed(SEED)
        tell(measured(case))
    last = time.monotonic()
    # The middle length first, so that there is one of each kind if time is short.
    for case in sorted((case for case in cases if case.sampled), key=lambda case: case.about["n"] != 8192):
        if time.monotonic() - last < given.last_seconds and not set(case.sampled) <= set(rows[case.name]["contenders"]):
            sampled(case, rows[case.name])
            tell(rows[case.name])


if __name__ == "__main__":
    main()
