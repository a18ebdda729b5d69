"""Sixteen virtual devices on one GPU: is attention over a million tokens right there, and are its bytes as planned?

    PYTHONPATH=src python studies/many-devices/one_gpu.py one_gpu.json

Ranks are threads that take turns on the GPU and hand each other messages in memory; kernels, messages and their order
are those of ranks on many GPUs. Outputs and gradients are compared with the definition in float64 on sampled rows and
keys, beside those of one device, and the bytes of every rank and stage with the planned ones. Needs NumPy and PyTorch,
and Triton on a GPU. ``--n 2048`` is a trial on a CPU.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.cluster import Grid, Sharding
from attenio.cluster.bytes import stage_bytes
from attenio.cluster.executor.assignment import Assignment, grid_pairs, spans_of
from attenio.cluster.executor.backward import backward
from attenio.cluster.executor.forward import forward
from attenio.cluster.executor.in_memory import InMemory, run_ranks
from attenio.cluster.executor.part import Part
from attenio.cluster.executor.transport import Leg, Network
from attenio.cluster.words import Shares
from attenio.kernels.attention import attention
from attenio.measurement.provenance import provenance
from attenio.workload import Direction, Workload

UNBOUNDED = 2**40
SAMPLES = 48
RESULTS = ("output", "dQ", "dK", "dV")
# Rows and keys at the end of the sequence, of which the definition is computed without anything from a kernel.
LATE_KEYS = 512


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    heads: int
    kv_heads: int
    d: int
    causal: bool
    grid: Grid
    sharding: Sharding


CASES = (
    Case(
        name="causal", heads=4, kv_heads=2, d=64, causal=True, grid=Grid(heads=2, queries=4, keys=2),
        sharding=Sharding.ZIGZAG,
    ),
    Case(
        name="dense", heads=1, kv_heads=1, d=64, causal=False, grid=Grid(queries=4, keys=4),
        sharding=Sharding.CONTIGUOUS,
    ),
)  # fmt: skip


class Trial:
    """The tensors of a case, whole, and what ranks make of them."""

    def __init__(self, case: Case, n: int, device: str) -> None:
        self.case, self.n, self.scale = case, n, case.d**-0.5
        torch.manual_seed(0)
        heads = (case.heads, case.kv_heads, case.kv_heads, case.heads)
        shapes = [(1, each, n, case.d) for each in heads]
        self.tensors = [torch.randn(shape, device=device, dtype=torch.bfloat16) for shape in shapes]
        self.spans = spans_of(n, case.grid.devices, case.sharding)
        self.work = Assignment(
            heads=case.grid.heads, queries=self.spans, keys=self.spans, pairs=grid_pairs(case.grid),
            below=-UNBOUNDED, above=0 if case.causal else UNBOUNDED,
        )  # fmt: skip

    def rank(self, end: InMemory) -> tuple[Any, ...]:
        network = Network(transport=end)
        part = Part(work=self.work, network=network, scale=self.scale)
        query, key, value, gradient = (
            torch.cat([each[:, :, start:stop] for start, stop in self.spans[end.rank]], 2) for each in self.tensors
        )
        output, kept = forward(part, query, key, value)
        return output, *backward(part, kept, gradient), network.ledger

    def on_ranks(self) -> tuple[list[Tensor], list[Any]]:
        done = run_ranks(self.case.grid.devices, self.rank)
        like = (self.tensors[3], *self.tensors[:3])
        found = [torch.empty_like(each) for each in like]
        for rank, parts in enumerate(done):
            begin = 0
            for start, stop in self.spans[rank]:
                for whole, part in zip(found, parts, strict=False):
                    whole[:, :, start:stop] = part[:, :, begin : begin + stop - start]
                begin += stop - start
        return found, [ledger for *_, ledger in done]

    def on_one_device(self) -> list[Tensor]:
        leaves = [each.detach().requires_grad_() for each in self.tensors[:3]]
        output = attention(*leaves, is_causal=self.case.causal, enable_gqa=True)
        found = [output.detach(), *torch.autograd.grad(output, leaves, self.tensors[3])]
        for each in leaves:
            each.requires_grad_(False)
        return found


def rows_defined(trial: Trial, head: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs, dQ, weights and dS of some rows of a head, in float64."""
    group = trial.case.heads // trial.case.kv_heads
    query, key, value, gradient = (each[0] for each in trial.tensors)
    q, dO = query[head, rows].double(), gradient[head, rows].double()
    k, v = key[head // group].double(), value[head // group].double()
    scores = q @ k.mT * trial.scale
    if trial.case.causal:
        scores.masked_fill_(torch.arange(trial.n, device=q.device) > rows[:, None], -torch.inf)
    weights = torch.softmax(scores, -1)
    output = weights @ v
    dS = weights * (dO @ v.mT - (dO * output).sum(-1, keepdim=True))
    return output, dS @ k * trial.scale, weights, dS


class Sample(NamedTuple):
    """Rows or keys of a head of a result, and what they are by definition."""

    name: str
    result: int
    head: int
    positions: Tensor
    right: Tensor


def samples(trial: Trial) -> list[Sample]:
    """Outputs and dQ of some rows, dK and dV of some keys."""
    case, device = trial.case, trial.tensors[0].device
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(trial.n, (SAMPLES,), generator=generator).to(device)
    found = []
    for head in range(case.heads):
        output, dQ, _, _ = rows_defined(trial, head, rows)
        found += [Sample("output", 0, head, rows, output), Sample("dQ", 1, head, rows, dQ)]
    keys = torch.randint(trial.n, (SAMPLES,), generator=generator).to(device)
    if case.causal:
        keys = torch.arange(trial.n - LATE_KEYS, trial.n, device=device)
    for kv_head in range(case.kv_heads):
        dK, dV = (late_keys_defined if case.causal else keys_defined)(trial, kv_head, keys)
        found += [Sample("dK", 2, kv_head, keys, dK), Sample("dV", 3, kv_head, keys, dV)]
    return found


def errors(found: list[Tensor], right: list[Sample]) -> dict[str, float]:
    """Relative errors of sampled outputs and gradients, as norms."""
    wrong, whole = dict.fromkeys(RESULTS, 0.0), dict.fromkeys(RESULTS, 0.0)
    for each in right:
        mine = found[each.result][0, each.head, each.positions].double()
        wrong[each.name] += float((mine - each.right).square().sum())
        whole[each.name] += float(each.right.square().sum())
    return {name: (wrong[name] / whole[name]) ** 0.5 for name in RESULTS}


def late_keys_defined(trial: Trial, kv_head: int, keys: Tensor) -> tuple[Tensor, Tensor]:
    """dK and dV of the last keys under a causal mask: only the last rows see them, of which everything is defined."""
    group = trial.case.heads // trial.case.kv_heads
    width = trial.tensors[1].shape[-1]
    of_key, of_value = torch.zeros(2, len(keys), width, dtype=torch.float64, device=keys.device)
    for head in range(kv_head * group, (kv_head + 1) * group):
        _, _, weights, dS = rows_defined(trial, head, keys)
        q, dO = (each[0, head, keys].double() for each in (trial.tensors[0], trial.tensors[3]))
        of_value += weights[:, keys].mT @ dO
        of_key += dS[:, keys].mT @ q * trial.scale
    return of_key, of_value


def keys_defined(trial: Trial, kv_head: int, keys: Tensor) -> tuple[Tensor, Tensor]:
    """dK and dV of some keys that all rows see, in float64, a chunk of rows after another."""
    group, key, value = trial.case.heads // trial.case.kv_heads, *(each[0, kv_head] for each in trial.tensors[1:3])
    k, v = key[keys].double(), value[keys].double()
    of_key, of_value = torch.zeros_like(k), torch.zeros_like(v)
    # Sums and dO . O of all rows would take as long in float64 as everything else together: single precision here.
    whole_k, whole_v = key.float(), value.float()
    for head in range(kv_head * group, (kv_head + 1) * group):
        for start in range(0, trial.n, 2048):
            q, dO = (each[0, head, start : start + 2048] for each in (trial.tensors[0], trial.tensors[3]))
            scores = q.float() @ whole_k.mT * trial.scale
            lse = torch.logsumexp(scores, -1)
            output = scores.sub_(lse[:, None]).exp_() @ whole_v
            D = (dO.double() * output.double()).sum(-1, keepdim=True)
            weights = torch.exp(q.double() @ k.mT * trial.scale - lse[:, None].double())
            of_value += weights.mT @ dO.double()
            of_key += (weights * (dO.double() @ v.mT - D)).mT @ q.double() * trial.scale
    return of_key, of_value


def bytes_beside_plan(trial: Trial, ledgers: list[Any]) -> list[dict[str, Any]]:
    """Of every stage the bytes that the busiest rank sent, those planned, and whether all ranks sent as planned."""
    case, rows = trial.case, []
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        workload = Workload(
            n=trial.n, d=case.d, heads=case.heads, kv_heads=case.kv_heads, dtype="bf16", direction=direction
        )
        for each in stage_bytes(workload, case.grid, Shares.of(workload, case.grid, case.sharding)):
            sent = [ledger.sent_bytes[Leg(direction, each.stage)] for ledger in ledgers]
            rows.append({
                "direction": direction.value, "stage": each.stage.value, "sent_bytes": max(sent),
                "planned_bytes": int(each.sent.max()), "as_planned": sent == each.sent.tolist(),
            })  # fmt: skip
    return rows


def measured(case: Case, n: int, device: str) -> dict[str, Any]:
    trial = Trial(case, n, device)
    begun = time.perf_counter()
    found, ledgers = trial.on_ranks()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    right = samples(trial)
    of_ranks = errors(found, right)
    of_one = errors(trial.on_one_device(), right)
    stages = bytes_beside_plan(trial, ledgers)
    within = all(of_ranks[name] <= 2 * of_one[name] + 1e-6 for name in of_one)
    return {
        "case": {**asdict(case), "grid": asdict(case.grid), "sharding": case.sharding.value}, "n": n,
        "errors_of_ranks": of_ranks, "errors_of_one_device": of_one, "within_twice": within, "stages": stages,
        "bytes_as_planned": all(each["as_planned"] for each in stages), "seconds_of_ranks": seconds,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--n", type=int, default=2**20, help="tokens")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.perf_counter()
    cases = []
    for case in CASES:
        cases.append(measured(case, asked.n, device))
        last = cases[-1]
        print(
            f"{case.name}: {case.grid.devices} devices, n={asked.n:,}, "
            f"{'right' if last['within_twice'] else 'WRONG'}, "
            f"bytes {'as planned' if last['bytes_as_planned'] else 'NOT as planned'}, "
            f"{last['seconds_of_ranks']:.1f} s; errors {last['errors_of_ranks']},"
            f" of one device {last['errors_of_one_device']}",
            flush=True,
        )
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    results = {
        "provenance": {**asdict(provenance()), "device_name": name, "torch": torch.__version__},
        "seconds": time.perf_counter() - begun, "cases": cases,
    }  # fmt: skip
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if all(each["within_twice"] and each["bytes_as_planned"] for each in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
