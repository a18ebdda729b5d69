"""Does attention over ranks run on NCCL? One rank on a GPU, then two, four and eight ranks on the same one.

    PYTHONPATH=src python studies/many-devices/nccl.py

Every rank runs forward and backward of several problems on DTensors over a mesh of CUDA devices, and compares its bytes
with the plan, and results with one call of ``attenio.attention`` by what both are off from float64, five times. Then a
rank of two dies before the second call, and a rank comes with another shape. Writes nccl.json beside this file, with
what made it (COMMIT=... names the commit where there is no checkout), and prints it. NCCL refuses two ranks of one host
on the same GPU. So these ranks say that they are hosts of their own (NCCL_HOSTID), and NCCL sends through sockets, as
between hosts without InfiniBand. Times there are those of sockets and of kernels that share a GPU.
"""

import argparse
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

from attenio.files import write_atomically
from attenio.measurement.software import expect_gpu

HERE = Path(__file__).parent
PROBLEMS = (
    {"n": 4096, "heads": 8, "kv_heads": 8, "is_causal": False},
    {"n": 4096, "heads": 8, "kv_heads": 2, "is_causal": True},
    {"n": 2050, "heads": 4, "kv_heads": 2, "is_causal": True, "window": 300},
)
# Blocks of queries, blocks of keys and groups of heads, by the number of ranks.
GRIDS = {1: [(1, 1, 1)], 2: [(2, 1, 1)], 4: [(4, 1, 1), (2, 2, 1)], 8: [(8, 1, 1), (2, 2, 2)]}
LIMIT_S, SAMPLES, TIMEOUT_S = 90, 5, 15
SOCKETS = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


def _mesh(grid: tuple[int, ...]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", grid, mesh_dim_names=("queries", "keys", "heads"))


def _begin() -> int:
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", timeout=timedelta(seconds=TIMEOUT_S))
    return rank


def ran_by_a_rank() -> list[dict[str, Any]]:
    """What one rank finds: errors beside one device's, and bytes sent beside planned ones."""
    import torch.distributed as dist

    _begin()
    found = []
    for grid in GRIDS[int(os.environ["WORLD_SIZE"])]:
        mesh = _mesh(grid)
        # A window's bytes are planned for one column of keys.
        asked = [problem for problem in PROBLEMS if grid[1] == 1 or "window" not in problem]
        found += [{"grid": grid, **_one_problem(mesh, grid, dict(problem))} for problem in asked]
    dist.destroy_process_group()
    return found


def fails(how: str) -> None:
    """The second of two ranks dies before a second call, or comes with more heads; the other one says so."""
    import torch
    from torch.distributed.tensor import DTensor, Shard

    from attenio.cluster import attention

    rank, mesh = _begin(), _mesh((2, 1, 1))
    q, other = (
        DTensor.from_local(torch.randn(1, heads, 256, 64, device="cuda").bfloat16(), mesh, [Shard(2)] * 3)
        for heads in (2, 4)
    )
    attention(q, q, q, mesh=mesh).full_tensor()
    if rank == 1 and how == "dies":
        os._exit(9)
    if rank == 1 and how == "differs":
        q = other
    start = time.perf_counter()
    try:
        attention(q, q, q, mesh=mesh)
        torch.cuda.synchronize()
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps({"rank": rank, "said": said, "seconds": time.perf_counter() - start}), flush=True)
    os._exit(0)  # No farewell: the other rank may be gone.


def _norms(results: list[Any], right: list[Any]) -> dict[str, float]:
    found = [float((each.double() - one).norm() / one.norm()) for each, one in zip(results, right, strict=True)]
    return dict(zip(("O", "dQ", "dK", "dV"), found, strict=True))


def _exact(whole: list[Any], group: int, *, is_causal: bool, window: int | None = None) -> list[Any]:
    """Results and gradients of the definition in float64."""
    import torch

    leaves = [each.double().requires_grad_() for each in whole[:3]]
    q, k, v = leaves[0], *(each.repeat_interleave(group, 1) for each in leaves[1:])
    ahead = torch.arange(q.shape[2], device="cuda")[:, None] - torch.arange(k.shape[2], device="cuda")
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if is_causal:
        seen &= ahead >= 0
    if window is not None:
        seen &= ahead < window
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    output = scores.softmax(-1) @ v
    return [output, *torch.autograd.grad(output, leaves, whole[3].double())]


def _one_problem(mesh: Any, shape: tuple[int, ...], problem: dict[str, Any]) -> dict[str, Any]:
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
    one_device = [alone, *torch.autograd.grad(alone, leaves, whole[3])]
    right = _exact(whole, heads // kv_heads, **problem)
    local = [distribute_tensor(each, mesh, [Shard(2)] * 3).requires_grad_() for each in whole]
    seconds, sent = [], []
    for _ in range(SAMPLES):
        before, start = ledger(mesh).total_sent_bytes, time.perf_counter()
        output = attention(*local[:3], mesh=mesh, enable_gqa=True, **problem)
        results = [output, *torch.autograd.grad(output, local[:3], local[3].detach())]
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        sent.append(ledger(mesh).total_sent_bytes - before)
    window = problem.get("window")
    workload = Workload(
        n=n, d=d, heads=heads, kv_heads=kv_heads, dtype="bf16", direction="training",
        mask="dense" if window is None else f"window:{window}",
    )  # fmt: skip
    grid = Grid(queries=shape[0], keys=shape[1], heads=shape[2])
    sizes = [stop - start for ((start, stop),) in chunked(n, shape)]
    held = torch.tensor(sizes).reshape(shape).numpy()
    shares = Shares(sharding=Shares.of(workload, grid).sharding, queries=held, keys=held)
    planned = sum(int(each.sent[mesh.get_rank()]) for each in stage_bytes(workload, grid, shares))
    return {
        "problem": {"n": n, "heads": heads, "kv_heads": kv_heads, **problem},
        "errors_of_ranks": _norms([each.detach().full_tensor() for each in results], right),
        "errors_of_one_device": _norms(one_device, right),
        "sent_bytes": sent,
        "planned_bytes": planned,
        "seconds": seconds,
    }


def started(ranks: int, *, own_hosts: bool, how: str = "rank") -> dict[str, Any]:
    """So many ranks as processes, of one host or of one each; their results, or what those that failed said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    every = []
    for rank in range(ranks):
        about = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        host = {"NCCL_HOSTID": f"host{rank}", **SOCKETS} if own_hosts else {}
        every.append(
            subprocess.Popen(
                [sys.executable, __file__, how],
                env={**os.environ, **about, **host},
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
    return {"ranks": ranks, "own_hosts": own_hosts, "by_rank": found, "refused": said}


def made() -> dict[str, Any]:
    """What made these results: attenio, its commit, the device, its driver and every version."""
    import torch

    from attenio.measurement.provenance import provenance

    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    named = asdict(provenance())
    return {
        **named, "commit": os.environ.get("COMMIT") or named["commit"],
        "device_name": torch.cuda.get_device_name(), "gpus": torch.cuda.device_count(),
        "driver": subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0],
        "cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "torch": torch.__version__, "triton": metadata.version("triton"), "python": platform.python_version(),
    }  # fmt: skip


def check(results: dict[str, Any]) -> None:
    """Raise where a rank did not run, sent other bytes than planned, or is off by over twice one device's error."""
    for run in results["runs"]:
        if run["ranks"] == 1 or run["own_hosts"]:
            assert len(run["by_rank"]) == run["ranks"], run["refused"]
        for each in (each for rank in run["by_rank"] for each in rank):
            assert set(each["sent_bytes"]) == {each["planned_bytes"]}, each
            for name, error in each["errors_of_ranks"].items():
                assert error <= 2 * each["errors_of_one_device"][name], each
    for name, run in results["failures"].items():
        assert any("rank 1" in each["said"] for each in run["by_rank"] if each["rank"] == 0), (name, run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("as_rank", nargs="?", choices=("rank", "dies", "differs"), help=argparse.SUPPRESS)
    as_rank = parser.parse_args().as_rank
    expect_gpu()
    if as_rank == "rank":
        print(json.dumps(ran_by_a_rank()))
        return
    if as_rank is not None:
        fails(as_rank)
    runs = [started(1, own_hosts=False), started(2, own_hosts=False)]
    runs += [started(ranks, own_hosts=True) for ranks in (2, 4, 8)]
    # Otherwise PyTorch's watchdog ends the process before attention() can say which rank is gone.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    failures = {how: started(2, own_hosts=True, how=how) for how in ("dies", "differs")}
    results = {"provenance": made(), "samples": SAMPLES, "timeout_s": TIMEOUT_S, "runs": runs, "failures": failures}
    text = json.dumps(results, indent=1) + "\n"
    write_atomically(HERE / "nccl.json", text)
    print(text)
    check(results)


if __name__ == "__main__":
    main()
