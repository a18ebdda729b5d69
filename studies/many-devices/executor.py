"""Bytes on the wire and peak memory of attention on eight ranks, ours beside others, on the same problems.

    unshare --net python studies/many-devices/executor.py

in an environment with attenio, PyTorch, ring-flash-attn, yunchang, deepspeed and jax writes executor_results.json
beside this file; ``executor_answer.py`` turns it into executor.md. Ranks are processes on gloo in a network namespace
of their own, so that every byte on its loopback device is theirs. On a busy computer TCP takes a segment whose receiver
was not scheduled in time for lost and sends its last one again (a loss probe); nothing is lost on a loopback device, so
these probes are off there, and segments that were sent again are counted. With numbers of problems as arguments only
those are run, and take their places among the results; with --ours only we run, and others keep what they have.

Peak memory is what PyTorch allocates during a forward and a backward pass beyond what it held before. Every result is
checked against the definition. JAX has no ranks here: eight virtual devices in one process, and the collectives that
XLA compiled are counted.
"""

import fcntl
import json
import os
import socket
import struct
import sys
import tempfile
from dataclasses import asdict
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from executor_peers import CONTENDERS, Problem, Refused, import_everything
from torch import Tensor

from attenio.cluster import Sharding
from attenio.cluster.executor.assignment import spans_of
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent
RANKS, TOKENS, WIDTH = 8, 2048, 64
PROBLEMS = tuple(
    Problem(n=TOKENS, heads=heads, kv_heads=kv_heads, d=WIDTH, causal=causal)
    for heads, kv_heads in ((8, 8), (8, 2), (2, 2), (1, 1))
    for causal in (False, True)
)
PACKAGES = ("torch", "ring-flash-attn", "yunchang", "deepspeed", "jax")


def wire_bytes() -> int:
    """What was sent through the loopback device of this network namespace so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    (line,) = (each.split(":")[1] for each in lines if each.strip().startswith("lo:"))
    return int(line.split()[8])


def resent_segments() -> int:
    """Segments that TCP sent again in this network namespace so far."""
    names, values = (
        each.split()
        for each in Path("/proc/net/snmp").read_text(encoding="ascii").splitlines()
        if each.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def counted_bytes() -> int:
    """What our ledgers have counted on this rank so far; nothing where another sends."""
    from attenio.cluster.executor.attention import _networks

    return sum(each.ledger.total_sent_bytes for each in _networks.values())


def raise_loopback() -> None:
    """The loopback device of a new namespace is down; other devices mean that this is no namespace of our own."""
    devices = [each.split(":")[0].strip() for each in Path("/proc/net/dev").read_text().splitlines()[2:]]
    if devices != ["lo"]:
        sys.exit(f"this network has the devices {', '.join(devices)}; start it with unshare --net (or -rn)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, 0x8914, struct.pack("16sh", b"lo", 1))
    Path("/proc/sys/net/ipv4/tcp_early_retrans").write_text("0", encoding="ascii")


def defined(problem: Problem, tensors: list[Tensor]) -> list[Tensor]:
    """Output and gradients of whole tensors in single precision, a head at a time."""
    leaves = [each.float().requires_grad_() for each in tensors[:3]]
    group = problem.heads // problem.kv_heads
    wide = [leaves[0], *(each.repeat_interleave(group, 1) for each in leaves[1:])]
    output = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=problem.causal)
    return [output.detach(), *torch.autograd.grad(output, leaves, tensors[3].float())]


def owned(problem: Problem, zigzag: bool, rank: int) -> Tensor:
    sharding = Sharding.ZIGZAG if zigzag else Sharding.CONTIGUOUS
    spans = spans_of(problem.n, RANKS, sharding)[rank]
    return torch.cat([torch.arange(start, stop) for start, stop in spans])


def peak_bytes(call: Any) -> int:
    """The most that PyTorch holds during a call beyond what it held before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        torch.empty(1)
        call()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text(encoding="utf-8"))["traceEvents"]
    held = [each["args"]["Total Allocated"] for each in events if each.get("name") == "[memory]"]
    return int(max(held) - held[0])


def run(problem: Problem, contender: str, rank: int) -> dict[str, Any]:
    """What one rank finds: bytes of both passes on the wire of all ranks, its own peak memory, and errors."""
    torch.manual_seed(0)
    heads = (problem.heads, problem.kv_heads, problem.kv_heads, problem.heads)
    whole = [torch.randn(1, each, problem.n, problem.d).bfloat16() for each in heads]
    try:
        attend, zigzag = CONTENDERS[contender](problem)
    except Refused as refusal:
        return {"refused": str(refusal)}
    mine = owned(problem, zigzag, rank)
    local = [each[:, :, mine].contiguous() for each in whole]
    leaves = [each.requires_grad_() for each in local[:3]]

    def both() -> tuple[Tensor, ...]:
        output = attend(*leaves)
        return output.detach(), *torch.autograd.grad(output, leaves, local[3])

    found = both()  # connections are made by now
    errors = [
        float((got.float() - want[:, :, mine]).norm() / want[:, :, mine].norm())
        for got, want in zip(found, defined(problem, whole), strict=True)
    ]
    del found
    dist.barrier()
    start, counted, resent = wire_bytes(), counted_bytes(), resent_segments()
    dist.barrier()
    output = attend(*leaves)
    dist.barrier()
    middle = wire_bytes()
    dist.barrier()
    torch.autograd.grad(output, leaves, local[3])
    del output
    dist.barrier()
    end, counted, resent = wire_bytes(), counted_bytes() - counted, resent_segments() - resent
    dist.barrier()
    peak = peak_bytes(both)
    return {
        "errors": errors, "forward_bytes": middle - start, "backward_bytes": end - middle, "peak_bytes": peak,
        "counted_bytes": counted, "resent_segments": resent,
    }  # fmt: skip


def on_ranks(problem: Problem, contender: str) -> dict[str, Any]:
    """All ranks, forked; of bytes the mean of a rank, of memory and errors the largest."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    ends, children = [os.pipe() for _ in range(RANKS)], []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            end = dist.TCPStore("127.0.0.1", store.port, None, False)
            dist.init_process_group("gloo", store=end, rank=rank, world_size=RANKS, timeout=timedelta(seconds=600))
            try:
                found = run(problem, contender, rank)
            except Exception as error:  # of a peer: said in the results
                found = {"refused": f"{type(error).__name__}: {error}"[:300]}
            os.write(ends[rank][1], json.dumps(found).encode())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    said = []
    for reading, writing in ends:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said.append(json.loads(pipe.read() or '{"refused": "it failed"}'))
    refused = [each for each in said if "refused" in each]
    if refused:
        return next((each for each in refused if "gloo" not in each["refused"]), refused[0])
    return {
        "forward_bytes": said[0]["forward_bytes"] // RANKS, "backward_bytes": said[0]["backward_bytes"] // RANKS,
        "peak_bytes": max(each["peak_bytes"] for each in said),
        "errors": [max(each["errors"][index] for each in said) for index in range(4)],
        # ours counts what it sends; of others there is only the wire
        "counted_bytes": sum(each["counted_bytes"] for each in said) // RANKS or None,
        "resent_segments": said[0]["resent_segments"],
    }  # fmt: skip


def main() -> None:
    raise_loopback()
    # Read when process groups are made, and when JAX is imported.
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "XLA_FLAGS": f"--xla_force_host_platform_device_count={RANKS}"}
    path, ours = HERE / "executor_results.json", "--ours" in sys.argv
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"problems": []}
    rows = {each["name"]: each for each in known["problems"]}
    asked = [PROBLEMS[int(each)] for each in sys.argv[1:] if each != "--ours"] or list(PROBLEMS)
    if not ours:
        import_everything()
    for problem in asked:
        found = {}
        for contender in CONTENDERS if not ours else ("attenio",):
            found[contender] = on_ranks(problem, contender)
            print(problem.name, contender, found[contender], flush=True)
        before = rows[problem.name]["contenders"] if ours else {}
        rows[problem.name] = {**asdict(problem), "name": problem.name, "contenders": {**before, **found}}
    made = asdict(provenance())
    if ours:
        known["ours"] = made
    else:
        from executor_jax import jax_found

        for problem in asked:
            rows[problem.name]["contenders"]["JAX"] = jax_found(problem, RANKS)
            print(problem.name, "JAX", rows[problem.name]["contenders"]["JAX"], flush=True)
        known["provenance"] = {**made, **{name: metadata.version(name) for name in PACKAGES}}
        known.pop("ours", None)
    known |= {"ranks": RANKS, "problems": [rows[each.name] for each in PROBLEMS if each.name in rows]}
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
