"""Does attention over ranks run on NCCL? One rank on a GPU, then two ranks on the same one, which NCCL may refuse.

    PYTHONPATH=src python studies/many-devices/nccl.py

Every rank runs forward and backward of several problems on DTensors over a mesh of CUDA devices, and compares results
with one call of ``attenio.attention``, and its bytes with the plan, five times. Writes nccl.json beside this file, with
what made it (COMMIT=... names the commit where there is no checkout), and prints it. With as many GPUs as ranks the
second part runs on a GPU each.
"""

import json
import os
import platform
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROBLEMS = (
    {"n": 4096, "heads": 8, "kv_heads": 8, "is_causal": False},
    {"n": 4096, "heads": 8, "kv_heads": 2, "is_causal": True},
    {"n": 2050, "heads": 4, "kv_heads": 2, "is_causal": True, "window": 300},
)
LIMIT_S, SAMPLES = 240, 5


def ran_by_a_rank() -> list[dict[str, Any]]:
    """What one rank finds: errors beside one device, and bytes sent beside planned ones."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", timeout=timedelta(seconds=60))
    mesh = init_device_mesh("cuda", (ranks,), mesh_dim_names=("queries",))
    found = [_one_problem(mesh, dict(problem)) for problem in PROBLEMS]
    dist.destroy_process_group()
    return found


def _one_problem(mesh: Any, problem: dict[str, Any]) -> dict[str, Any]:
    import torch
    from torch.distributed.tensor import Shard, distribute_tensor

    import attenio
    from attenio.cluster import Grid, attention, ledger
    from attenio.cluster.bytes import stage_bytes
    from attenio.cluster.executor.assignment import chunked
    from attenio.cluster.words import Shares
    from attenio.workload import Workload

    n, heads, kv_heads, d = problem.pop("n"), problem.pop("heads"), problem.pop("kv_heads"), 64
    torch.manual_seed(n)
    shapes = [(1, heads, n, d), (1, kv_heads, n, d), (1, kv_heads, n, d), (1, heads, n, d)]
    whole = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]
    leaves = [each.clone().requires_grad_() for each in whole[:3]]
    alone = attenio.attention(*leaves, enable_gqa=True, **problem)
    right = [alone, *torch.autograd.grad(alone, leaves, whole[3])]
    local = [distribute_tensor(each, mesh, [Shard(2)]).requires_grad_() for each in whole]
    seconds, sent = [], []
    for _ in range(SAMPLES):
        before, start = ledger(mesh).total_sent_bytes, time.perf_counter()
        output = attention(*local[:3], mesh=mesh, enable_gqa=True, **problem)
        results = [output, *torch.autograd.grad(output, local[:3], local[3].detach())]
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        sent.append(ledger(mesh).total_sent_bytes - before)
    errors = [
        float((mine.detach().full_tensor().double() - one.double()).norm() / one.double().norm())
        for mine, one in zip(results, right, strict=True)
    ]
    window = problem.get("window")
    sizes = [stop - start for ((start, stop),) in chunked(n, (mesh.size(),))]
    held = torch.tensor(sizes).reshape(mesh.size(), 1, 1).numpy()
    workload = Workload(
        n=n, d=d, heads=heads, kv_heads=kv_heads, dtype="bf16", direction="training",
        mask="dense" if window is None else f"window:{window}",
    )  # fmt: skip
    grid = Grid(queries=mesh.size())
    shares = Shares(sharding=Shares.of(workload, grid).sharding, queries=held, keys=held)
    planned = sum(int(each.sent[mesh.get_rank()]) for each in stage_bytes(workload, grid, shares))
    return {
        "problem": {"n": n, "heads": heads, "kv_heads": kv_heads, **problem},
        "errors": dict(zip(("O", "dQ", "dK", "dV"), errors, strict=True)),
        "sent_bytes": sent,
        "planned_bytes": planned,
        "seconds": seconds,
    }


def started(ranks: int, **more: str) -> dict[str, Any]:
    """So many ranks as processes; their results, or what the first that failed said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    every = []
    for rank in range(ranks):
        about = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        every.append(
            subprocess.Popen(
                [sys.executable, __file__, "rank"],
                env={**os.environ, **about, **more},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    found, said = [], []
    for rank, process in enumerate(every):
        try:
            out, problems = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, problems = process.communicate()
            said.append(f"rank {rank} did not end within {LIMIT_S} s")
        if process.returncode == 0:
            found.append(json.loads(out.splitlines()[-1]))
        else:
            lines = [line.strip() for line in problems.splitlines() if "uplicate" in line or "rror" in line]
            said.append(f"rank {rank}: {lines[-1] if lines else 'exit code ' + str(process.returncode)}"[:300])
    return {"ranks": ranks, "environment": more, "by_rank": found, "refused": said}


def made() -> dict[str, Any]:
    """What made these results: attenio, its commit, the device, its driver and every version."""
    import torch

    from attenio.measurement.provenance import provenance

    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    named = asdict(provenance())
    return {
        **named, "commit": named["commit"] or os.environ.get("COMMIT"),
        "device_name": torch.cuda.get_device_name(), "gpus": torch.cuda.device_count(),
        "driver": subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0],
        "cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "torch": torch.__version__, "triton": metadata.version("triton"), "python": platform.python_version(),
    }  # fmt: skip


def main() -> None:
    if sys.argv[1:] == ["rank"]:
        print(json.dumps(ran_by_a_rank()))
        return
    runs = [started(1), started(2)]
    if runs[1]["refused"]:
        runs.append(started(2, NCCL_MULTI_RANK_GPU_ENABLE="1"))
    results = {"provenance": made(), "samples": SAMPLES, "runs": runs}
    text = json.dumps(results, indent=1) + "\n"
    (HERE / "nccl.json").write_text(text, encoding="utf-8")
    print(text)
    for run in runs:
        for rank in run["by_rank"]:
            for each in rank:
                assert max(each["errors"].values()) < 0.02, each
                assert set(each["sent_bytes"]) == {each["planned_bytes"]}, each
    assert runs[0]["by_rank"], "one rank on NCCL did not run"


if __name__ == "__main__":
    main()
