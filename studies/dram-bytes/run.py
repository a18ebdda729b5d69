"""How many bytes does attention move between an H200's L2 and its memory: counted, predicted, and at least?

    PYTHONPATH=src python studies/dram-bytes/run.py [--direction backward] [--into FOLDER] [--commit NAME]

counts every case with Nsight Compute and writes results.json beside this file, or into FOLDER. A case that was counted
at the same commit is not counted again. ``answer.py`` turns it into answer.md.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attenio.files import write_atomically
from attenio.measurement.profile import CONTENDERS, Profiled, profiles
from attenio.measurement.provenance import provenance
from attenio.measurement.result import OURS_REPEATING
from attenio.measurement.software import expect_gpu, software_of
from attenio.workload import Direction, Workload

# Workloads that are counted in one process, and written down together.
BATCH = 6
# As many tokens times heads in every case: 16 x 16K, 4 x 64K, 1 x 256K.
TOKENS = 2**18
FORWARD = [(n, 128) for n in (16384, 65536, 262144)] + [(65536, 64), (131072, 256)]
BACKWARD = [(8192, 128, "dense"), (8192, 128, "causal"), (32768, 128, "dense")]
BACKWARD += [(8192, d, "dense") for d in (64, 256)]


def workloads() -> list[Workload]:
    """The lengths that matter first."""
    made = [Workload(n=n, d=d, heads=max(1, TOKENS * 128 // (n * d)), dtype="bf16") for n, d in FORWARD]
    made += [Workload(n=65536, d=128, dtype="bf16"), Workload(n=65536, d=128, heads=4, mask="causal", dtype="bf16")]
    return made + [
        Workload(n=n, d=d, heads=TOKENS * 64 // (n * d), mask=mask, dtype="bf16", direction="backward")
        for n, d, mask in BACKWARD
    ]


def shape_of(workload: Workload) -> dict[str, Any]:
    """What the answer tells cases apart by."""
    names = {"mask": str(workload.mask), "direction": workload.direction.value}
    return {"heads": workload.heads, "n": workload.keys, "d": workload.d, **names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--direction", choices=["forward", "backward"], help="count these passes only")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    given = parser.parse_args()
    expect_gpu()
    file, made = given.into / "results.json", asdict(provenance())
    made["commit"] = given.commit or made["commit"]
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cases": []}
    cases = {case["workload"]: case for case in kept["cases"]}
    missing = [each for each in workloads() if cases.get(str(each), {}).get("commit") != made["commit"]]
    for direction in [Direction(given.direction)] if given.direction else Direction:
        for batch in _batches([workload for workload in missing if workload.direction is direction]):
            repeating = (OURS_REPEATING,) if direction is Direction.BACKWARD else ()
            for found in profiles(batch, names=(*CONTENDERS, *repeating)):
                counted = {**found.to_json(), "shape": shape_of(found.workload), "commit": made["commit"]}
                cases[str(found.workload)] = counted
                print(f"{found.workload}: {', '.join(map(said_of, found.contenders))}", flush=True)
            results = {**kept, "provenance": {**made, **software_of("cuda")}, "cases": list(cases.values())}
            write_atomically(file, json.dumps(results, indent=1) + "\n")


def said_of(contender: Profiled) -> str:
    """A line for whoever watches."""
    moved, predicted = (
        None if bytes_ is None else round(bytes_ / 1e6)
        for bytes_ in (contender.moved_bytes, contender.predicted and contender.predicted.moved_bytes)
    )
    return f"{contender.name} {moved} MB" + ("" if predicted is None else f" (predicted {predicted})")


def _batches(of: list[Workload]) -> list[list[Workload]]:
    return [of[start : start + BATCH] for start in range(0, len(of), BATCH)]


if __name__ == "__main__":
    main()
