"""Attention over ranks: every grid of two KV heads gives the same result and sends what is planned, to the byte.

torchrun --nproc-per-node 4 examples/attention_on_ranks.py
"""

import os
import subprocess
import sys

if "WORLD_SIZE" not in os.environ:  # not started by torchrun: start it for two ranks
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", __file__]
    sys.exit(subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}, check=False).returncode)

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from attenio import Workload, attention
from attenio.cluster import Sharding, grids, ledger
from attenio.cluster import attention as cluster_attention
from attenio.cluster.bytes import stage_bytes
from attenio.cluster.words import Shares
from attenio.errors import AttenioError

TOKENS, HEADS, KV_HEADS, WIDTH = 1024, 4, 2, 32


def main() -> None:
    """Run attention and its gradients on every grid, beside one device."""
    torch.manual_seed(0)  # the same tensors on every rank
    whole = [torch.randn(1, heads, TOKENS, WIDTH, requires_grad=True) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    alone = attention(*whole, is_causal=True, enable_gqa=True)
    right = [alone.detach(), *torch.autograd.grad(alone.square().sum(), whole)]
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for grid in grids(ranks, KV_HEADS):
        shape = (grid.queries, grid.keys, grid.heads)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("queries", "keys", "heads"))
        before = ledger(mesh).total_sent_bytes
        q, k, v = (distribute_tensor(each.detach(), mesh, [Shard(2)] * 3).requires_grad_() for each in whole)
        output = cluster_attention(q, k, v, mesh=mesh, is_causal=True, enable_gqa=True)
        found = [output, *torch.autograd.grad(output.square().sum(), (q, k, v))]
        sent = ledger(mesh).total_sent_bytes - before
        start, size = rank * TOKENS // ranks, TOKENS // ranks
        for mine, want in zip(found, right, strict=True):
            local = mine.to_local().detach()
            assert torch.allclose(local, want[:, :, start : start + size], rtol=1e-4, atol=1e-4)
        assert sent == planned_bytes(grid)[rank]
        if rank == 0:
            print(f"grid {grid}: as on one device; rank 0 sent {sent:,} bytes, as planned")


def planned_bytes(grid):
    """What every rank sends in both passes."""
    workload = Workload(n=TOKENS, d=WIDTH, heads=HEADS, kv_heads=KV_HEADS, dtype="fp32")
    shares = Shares.of(workload, grid, Sharding.CONTIGUOUS)
    passes = (workload.towards(direction) for direction in ("forward", "backward"))
    return np.sum([stage.sent for each in passes for stage in stage_bytes(each, grid, shares)], axis=0)


dist.init_process_group("gloo")
try:
    main()
except AttenioError as error:
    sys.exit(f"rank {dist.get_rank()}: {error}")
dist.destroy_process_group()
