"""What the ranks of ``forked`` do. Every function is run by every rank."""

import io
import os
import runpy
import signal
import time
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import attenio
from attenio.cluster import Sharding, attention, context_parallel, ledger
from attenio.cluster.bytes import stage_bytes
from attenio.cluster.executor.assignment import spans_of
from attenio.cluster.executor.attention import attend_shares, network_of
from attenio.cluster.executor.call import chunked, cluster_call, workload_of
from attenio.cluster.layouts import layout_bytes
from attenio.cluster.patches import Patchwork, tables
from attenio.cluster.patches.halves import halves
from attenio.cluster.strips import Owners, Strips
from attenio.cluster.words import Shares
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.transformers import register
from attenio.masks import Causal
from attenio.workload import Direction, Workload
from cluster.executor.definition import FLOOR, defined, on_one_device

try:
    from transformers import AutoModelForCausalLM, MistralConfig
    from transformers.models.mistral import modeling_mistral  # noqa: F401 - otherwise every rank imports it
except ImportError:
    AutoModelForCausalLM = None

UNBOUNDED = 2**40
EXAMPLE = Path(__file__).parents[3] / "examples" / "attention_on_ranks.py"
tables()  # read once, not by every rank


def tensors(tokens: int, heads: int, kv_heads: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(tokens)
    shapes = [(2, heads, tokens, 16), (2, kv_heads, tokens, 16), (2, kv_heads, tokens, 8), (2, heads, tokens, 8)]
    return [torch.randn(shape).to(dtype) for shape in shapes]


def beside_one_device() -> list[dict[str, Any]]:
    """DTensors over meshes of several forms, with masks and types: errors, and bytes beside planned ones."""
    every, ranks = [], dist.get_world_size()
    options: list[dict[str, Any]] = [{}, {"is_causal": True}, {"window": 9}, {"is_causal": True, "sharding": "zigzag"}]
    meshes = [
        init_device_mesh("cpu", (ranks,)),
        init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("queries", "keys")),
        init_device_mesh("cpu", (2, ranks // 4, 2), mesh_dim_names=("queries", "keys", "heads")),
    ]
    for index, (mesh, given) in enumerate((mesh, given) for mesh in meshes for given in options):
        dtype = (torch.float32, torch.bfloat16)[index % 2]
        tokens = 8 * ranks if "sharding" in given else 59 + index
        every.append(_case(mesh, tokens, dtype, dict(given)))
    return every


def _case(mesh: Any, tokens: int, dtype: torch.dtype, given: dict[str, Any]) -> dict[str, Any]:
    whole = tensors(tokens, 4, 2, dtype)
    below = -8 if "window" in given else -UNBOUNDED
    above = 0 if given.get("is_causal") or "window" in given else UNBOUNDED
    right = defined(*whole, below, above)
    alone = on_one_device(*whole, **{name: each for name, each in given.items() if name != "sharding"})
    order = torch.arange(tokens)
    if "sharding" in given:
        owned = spans_of(tokens, mesh.size(), Sharding.ZIGZAG)
        order = torch.cat([order[start:stop] for rank in owned for start, stop in rank])
    placed = [Shard(2)] * mesh.ndim
    local = [distribute_tensor(each[:, :, order], mesh, placed).requires_grad_() for each in whole]
    before = dict(ledger(mesh).sent_bytes)
    output = attention(*local[:3], mesh=mesh, enable_gqa=True, **given)
    found = [output, *torch.autograd.grad(output, local[:3], local[3].detach())]
    assert all(isinstance(each, DTensor) and tuple(each.placements) == tuple(placed) for each in found)
    sent = {leg: now - before.get(leg, 0) for leg, now in ledger(mesh).sent_bytes.items()}
    errors = []
    for mine, one, want in zip(found, alone, right, strict=True):
        gathered = mine.detach().full_tensor().double()
        error, other = float((gathered - want[:, :, order]).norm()), float((one.double() - want).norm())
        errors.append((error, 2 * other + FLOOR * want.numel() ** 0.5))
    return {"errors": errors, "sent": sum(sent.values()), "planned": _planned(mesh, whole, given)}


def _planned(mesh: Any, whole: list[Tensor], given: dict[str, Any]) -> int | None:
    """Bytes of this rank in both passes; None where a window on this grid is not planned."""
    shapes = tuple(tuple(each.shape) for each in whole[:3])
    sharding = Sharding.named(given.get("sharding", "contiguous"))
    call = cluster_call(shapes, whole[0].dtype, mesh, CallArguments(enable_gqa=True), sharding)
    if "window" in given and call.grid.keys > 1:
        return None
    sizes = [sum(stop - start for start, stop in rank) for rank in chunked(shapes[0][2], tuple(mesh.shape))]
    by_place = Shares.of(Workload(n=len(sizes), d=1), call.grid).queries
    held = torch.tensor(sizes).reshape(by_place.shape).numpy()
    shares = Shares(sharding=sharding, queries=held, keys=held)
    total = 0
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        workload = Workload(
            n=shapes[0][2], d=16, value_dim=8, heads=4, kv_heads=2, batch=2, direction=direction,
            dtype="fp32" if whole[0].dtype == torch.float32 else "bf16",
            mask=f"window:{given['window']}" if "window" in given else "dense",
        )  # fmt: skip
        total += sum(int(each.sent[dist.get_rank()]) for each in stage_bytes(workload, call.grid, shares))
    return total


def in_strips() -> list[dict[str, Any]]:
    """Causal work in strips of rows, zigzag tokens or those of the rows."""
    return with_layouts(
        (Strips(counts=(2, 1)), torch.float32),
        (Strips(heads=2, counts=(1,)), torch.bfloat16),
        (Strips(counts=(2, 1), owners=Owners.ROWS), torch.float32),
    )


def in_patches() -> list[dict[str, Any]]:
    """Causal work as patchworks: of every rank's own rows, of the planner, and keys and rows that are passed on."""
    ranks = dist.get_world_size()
    rows = tuple(row for row in range(ranks) for _ in range(row + 1))
    shared = tuple(max(1, row) if row != key else row for row in range(ranks) for key in range(row + 1))
    columns = tuple(key for row in range(ranks) for key in range(row + 1))
    kept = [each for each in tables() if each.devices == ranks and each.blocks <= 32][:2]
    every = [Patchwork(owners=tuple(range(ranks)), makers=makers) for makers in ((rows, shared), (columns,))]
    every.append(halves(ranks // 2, ranks // 4))
    return with_layouts(*((each, torch.float32) for each in (*every, *kept)), (kept[0], torch.bfloat16))


def with_layouts(*layouts: tuple[Strips | Patchwork, torch.dtype]) -> list[dict[str, Any]]:
    """Errors of both passes over the ranks of layouts, and bytes beside planned ones."""
    every, mesh = [], init_device_mesh("cpu", (dist.get_world_size(),))
    for layout, dtype in layouts:
        kv_heads = max(2, layout.heads)
        whole, asked = tensors(90, 2 * kv_heads, kv_heads, dtype), CallArguments(is_causal=True, enable_gqa=True)
        right, alone = defined(*whole, -UNBOUNDED, 0), on_one_device(*whole, is_causal=True)
        shapes = tuple(tuple(each.shape) for each in whole[:3])
        call = cluster_call(shapes, dtype, mesh, asked, layout)
        mine = torch.cat([torch.arange(*span) for span in layout.homes(90)[dist.get_rank()].spans])
        given = [each[:, :, mine].requires_grad_() for each in whole]
        before = ledger(mesh).total_sent_bytes
        output = attend_shares(network_of(mesh), call, *given[:3])
        found = [output, *torch.autograd.grad(output, given[:3], given[3].detach())]
        work = replace(workload_of(*shapes, dtype), mask=Causal(), direction=Direction.TRAINING)
        planned = sum(int(each.sent[dist.get_rank()]) for each in layout_bytes(work, layout))
        errors = [
            (float((one.detach().double() - want[:, :, mine]).norm()), float((other.double() - want).norm()))
            for one, other, want in zip(found, alone, right, strict=True)
        ]
        every.append({"errors": errors, "sent": ledger(mesh).total_sent_bytes - before, "planned": planned})
    return every


def on_the_wire() -> list[int]:
    """Bytes that the ledger counts on this rank, and that the loopback device of a namespace counts for all."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("queries", "keys"))
    whole = [torch.randn(1, 4, 2048, 64) for _ in range(3)]
    given = [distribute_tensor(each, mesh, [Shard(2)] * 2).requires_grad_() for each in whole]
    attention(*given, mesh=mesh)  # connections are made and forms compared by now
    dist.barrier()
    counted, before = ledger(mesh).total_sent_bytes, loopback_bytes()
    dist.barrier()
    output = attention(*given, mesh=mesh)
    torch.autograd.grad(output, given, torch.ones_like(output))
    dist.barrier()
    return [ledger(mesh).total_sent_bytes - counted, loopback_bytes() - before]


def loopback_bytes() -> int:
    """What was sent through the loopback device of this network namespace so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    (line,) = (each.split(":")[1] for each in lines if each.strip().startswith("lo:"))
    return int(line.split()[8])


def the_example() -> str:
    """What the example prints on this rank, as torchrun would start it, but for importing PyTorch in every rank."""
    os.environ |= {"RANK": str(dist.get_rank()), "WORLD_SIZE": str(dist.get_world_size())}
    store = dist.distributed_c10d._get_default_store()
    started = partial(dist.init_process_group, store=store, rank=dist.get_rank(), world_size=dist.get_world_size())
    dist.destroy_process_group()
    dist.init_process_group = started
    with redirect_stdout(io.StringIO()) as said:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return said.getvalue()


def decode() -> list[Any]:
    """Replicated queries with keys spread over ranks; a query that one rank has; both beside one device."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = tensors(37, 4, 2, torch.float32)
    query = whole[0][:, :, :1]
    key, value = (distribute_tensor(each, mesh, [Shard(2)]) for each in whole[1:3])
    want = attenio.attention(query, *whole[1:3], enable_gqa=True)
    found, sent = [], []
    for placement in (Replicate(), Shard(2)):
        before = ledger(mesh).total_sent_bytes
        output = attention(distribute_tensor(query, mesh, [placement]), key, value, mesh=mesh, enable_gqa=True)
        sent.append(ledger(mesh).total_sent_bytes - before)
        assert output.placements == (placement,)
        found.append(float((output.full_tensor() - want).abs().max()))
    return [found, sent]


def shapes_that_differ() -> str:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shape = torch.Size((1, 2, 12 + (dist.get_rank() == 2), 8))
    options = {"run_check": False, "shape": shape, "stride": (192, 96, 8, 1)}
    given = [DTensor.from_local(torch.randn(1, 2, 4, 8), mesh, [Shard(2)], **options) for _ in range(3)]
    attention(*given, mesh=mesh)
    return "went on"


def a_version_that_differs() -> str:
    if dist.get_rank() == 1:
        attenio.__version__ = "0.0.9"
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    attention(*(distribute_tensor(torch.randn(1, 2, 12, 8), mesh, [Shard(2)]) for _ in range(3)), mesh=mesh)
    return "went on"


def _given(mesh: Any) -> list[DTensor]:
    placed = (distribute_tensor(torch.randn(1, 2, 24, 8), mesh, [Shard(2)]) for _ in range(3))
    return [each.requires_grad_() for each in placed]


def a_rank_that_dies() -> str:
    """Between two calls of the same form, when nobody compares forms any more."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("queries",))
    given = _given(mesh)
    attention(*given, mesh=mesh)
    if dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    attention(*given, mesh=mesh).sum().backward()
    return "went on"


def a_rank_that_hangs() -> str:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("queries",))
    given = _given(mesh)
    attention(*given, mesh=mesh)
    if dist.get_rank() == 1:
        time.sleep(7.0)
        os._exit(9)
    attention(*given, mesh=mesh)
    return "went on"


def a_model() -> list[float]:
    """Loss and gradients of a model of transformers on sharded sequences, beside one device."""
    if AutoModelForCausalLM is None:
        return []
    register()
    config = MistralConfig(
        vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=12, attn_implementation="attenio",
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    ids = torch.randint(50, (2, 37))
    alone = model(input_ids=ids, labels=ids).loss
    alone.backward()
    want = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with context_parallel(init_device_mesh("cpu", (dist.get_world_size(),))) as context:
        loss = model(**context.shard(input_ids=ids, labels=ids)).loss
        loss.backward()
        context.sum_gradients(model)
    total = loss.detach().clone()
    dist.all_reduce(total)
    errors = [
        float((parameter.grad - right).norm() / right.norm())
        for parameter, right in zip(model.parameters(), want, strict=True)
    ]
    return [float(total - alone.detach()), max(errors), context.ledger.total_sent_bytes]
