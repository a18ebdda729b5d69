"""What does a Dask cluster do for a large sweep, and what do deaths cost: of workers, and of the sweep's own process?

    .venv/bin/python studies/sweep-on-a-cluster/run.py beside --points 1e7 --workers 4
    .venv/bin/python studies/sweep-on-a-cluster/run.py killed --points 1e8 --workers 4

``beside`` sweeps a grid in one process and on processes of a local cluster. ``killed`` sweeps on the cluster, of which
two workers are killed on the way and then the sweep itself, which goes on when it is started again; then in one
process, for the same file. Both put what they find into results.json beside this file and write answer.md anew.
"""

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import SweepGrid, sweep

HERE = Path(__file__).parent


def grid_of(points: int) -> SweepGrid:
    """About so many points: lengths times widths, heads, batches and memories."""
    widths, heads, batches, memories = range(32, 257, 8), range(1, 65), (1, 2, 4, 8), range(2**15, 2**21, 2**14)
    lengths = max(1, round(points / (len(widths) * len(heads) * len(batches) * len(memories))))
    return SweepGrid(
        n=[1024 + 64 * each for each in range(lengths)], d=widths, heads=heads, batch=batches, fast_bytes=memories
    )


def swept(points: int, out: Path, cluster: str | None, deaths: str) -> None:
    """The sweep, in a process of its own; ``deaths`` says who is killed on the way."""
    killed = set()

    def kill(done: int, total: int) -> None:
        share = done / total
        for at in (0.2, 0.4):
            if "workers" in deaths and share >= at and at not in killed:
                from distributed import default_client

                killed.add(at)
                os.kill(next(iter(default_client().run(os.getpid).values())), signal.SIGKILL)
        if "itself" in deaths and share >= 0.6:
            os.kill(os.getpid(), signal.SIGKILL)

    sweep(grid_of(points), out=out, cluster=cluster, progress=kill if deaths else None)


def timed(points: int, out: Path, cluster: str | None, deaths: str = "") -> float:
    began = time.perf_counter()
    command = [sys.executable, __file__, "sweep", "--points", str(points), "--out", str(out), "--deaths", deaths]
    done = subprocess.run([*command, *(["--cluster", cluster] if cluster else [])], check=False)
    expected = -signal.SIGKILL if "itself" in deaths else 0
    assert done.returncode == expected, done.returncode
    return time.perf_counter() - began


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def beside(points: int, workers: int) -> dict[str, Any]:
    """One process and a cluster, seconds each."""
    with tempfile.TemporaryDirectory() as folder:
        one, many = (Path(folder) / f"{name}.parquet" for name in ("one", "many"))
        seconds = {"one process": timed(points, one, None), "cluster": timed(points, many, f"local:{workers}")}
        files = {digest_of(one), digest_of(many)}
    return {"seconds": seconds, "identical": len(files) == 1}


def killed(points: int, workers: int) -> dict[str, Any]:
    """A cluster whose workers and whose driver are killed, the same command again, and one process."""
    cluster = f"local:{workers}"
    with tempfile.TemporaryDirectory() as folder:
        one, out = (Path(folder) / f"{name}.parquet" for name in ("one", "killed"))
        seconds = {"until killed": timed(points, out, cluster, "workers and itself")}
        kept = len(list(out.with_name(f"{out.name}.parts").glob("*.npz")))
        seconds["from there"] = timed(points, out, cluster)
        seconds["one process"] = timed(points, one, None)
        files = {digest_of(one), digest_of(out)}
    return {"seconds": seconds, "chunks_kept": kept, "identical": len(files) == 1}


def answer(results: dict[str, Any]) -> str:
    lines = ["# What does a Dask cluster do for a large sweep, and what do deaths cost?", ""]
    if "beside" in results:
        found = results["beside"]
        lines += [
            f"{found['points']:,} points; {found['workers']} workers on {found['provenance']['cores']} cores, with a"
            f" load of {found['load_before']:.1f} before. Times include starting processes and writing Parquet.",
            "",
            "| how | seconds | points per second |",
            "|---|--:|--:|",
            *(f"| {how} | {each:.0f} | {found['points'] / each:,.0f} |" for how, each in found["seconds"].items()),
            "",
            f"The files are {'identical to the byte' if found['identical'] else 'NOT identical'}. Planning is what"
            " workers do; one process writes, so with as few cores as here there is nothing to gain.",
            *([found["note"]] if "note" in found else []),
            "",
        ]
    if "killed" in results:
        found = results["killed"]
        seconds, chunks = found["seconds"], -(-found["points"] // 2**16)
        same = {True: "That file is identical to the byte to one process's.", False: "The files are NOT identical."}
        lines += [
            f"{found['points']:,} points on {found['workers']} workers: two workers were killed with SIGKILL, then the"
            " sweep itself after"
            f" {seconds['until killed']:,.0f} s. {found['chunks_kept']:,} of {chunks:,} chunks were left, no worker"
            f" was, and the same command took {seconds['from there']:,.0f} s from there.",
            *([same[found["identical"]]] if found["identical"] is not None else []),
            *([found["note"]] if "note" in found else []),
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("beside", "killed", "sweep"))
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cluster")
    parser.add_argument("--deaths", default="")
    given = parser.parse_args()
    if given.what == "sweep":
        swept(int(given.points), given.out, given.cluster, given.deaths)
        return
    path = HERE / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    load = os.getloadavg()[0]
    found = {"beside": beside, "killed": killed}[given.what](int(given.points), given.workers)
    results[given.what] = {
        "provenance": {**asdict(provenance()), "machine": platform.machine(), "cores": os.cpu_count()},
        "points": len(grid_of(int(given.points))),
        "workers": given.workers,
        "load_before": load,
        **found,
    }
    results["provenance"] = [results[part]["provenance"] for part in ("beside", "killed") if part in results]
    write_atomically(path, json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(results))
    print(answer(results))


if __name__ == "__main__":
    main()
