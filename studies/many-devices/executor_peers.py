"""Attention on many devices by others, on CPUs and gloo: each gets the tensors (1, heads, tokens, d) of one rank.

Their kernels are for GPUs; here all of them get PyTorch's fused CPU kernel as the block operator, which changes no
message. What a peer does not take is said with ``Refused``.
"""

import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Refused(Exception):
    """What a peer does not take."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    n: int
    heads: int
    kv_heads: int
    d: int
    causal: bool

    @property
    def name(self) -> str:
        return f"{'causal' if self.causal else 'dense'} {self.heads}/{self.kv_heads} heads"


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def ours(problem: Problem) -> tuple[Attend, bool]:
    from attenio.cluster import Sharding
    from attenio.cluster.executor.attention import attend_shares, network_of
    from attenio.cluster.executor.call import cluster_call
    from attenio.kernels.call.arguments import CallArguments

    _same_block_operator()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shapes = tuple((1, heads, problem.n, problem.d) for heads in (problem.heads, problem.kv_heads, problem.kv_heads))
    sharding = Sharding.ZIGZAG if problem.causal else Sharding.CONTIGUOUS
    asked = CallArguments(is_causal=problem.causal, enable_gqa=True)
    call = cluster_call(shapes, torch.bfloat16, mesh, asked, sharding)
    network = network_of(mesh)
    network.agree(call.form)
    return lambda q, k, v: attend_shares(network, call, q, k, v), problem.causal


def _same_block_operator() -> None:
    """Ours on the kernel that all others get, so that memory is compared and not kernels."""
    from attenio.cluster.executor import blocks

    log2_e = 1.4426950408889634

    def masked(self: Any, query: Tensor, key: Tensor) -> dict[str, Any]:
        """Rows of a stretch may see keys beyond the diagonal of their block."""
        above = self.visible.above
        if above == 0 or above >= key.shape[2]:
            return {"is_causal": above == 0, "scale": self.scale}
        seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(above)
        return {
            "attn_mask": torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, -torch.inf),
            "scale": self.scale,
        }

    def attend(self: Any, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = (self.computed_with(each).contiguous() for each in (query, key, value))
        group = query.shape[1] // key.shape[1]
        found = [FLASH(query[:, index::group], key, value, 0.0, **masked(self, query, key)) for index in range(group)]
        output, lse = (
            torch.stack(each, 2).flatten(1, 2) if group > 1 else each[0] for each in zip(*found, strict=True)
        )
        return output, lse * log2_e

    def differentiate(self: Any, rows: Any, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        given = [rows.gradient, rows.query, key, value, rows.output]
        gradient, query, key, value, output = (self.computed_with(each).contiguous() for each in given)
        lse, group = (rows.lse / log2_e).contiguous(), query.shape[1] // key.shape[1]
        of_query, of_keys = [], []
        for index in range(group):  # query heads that share keys, one of each KV head at a time
            of_rows, q, o, sums = (each[:, index::group].contiguous() for each in (gradient, query, output, lse))
            options = {"is_causal": False, **masked(self, query, key)}
            first, *others = FLASH_BACKWARD(of_rows, q, key, value, o, sums, 0.0, **options)
            of_query.append(first)
            of_keys = others if not of_keys else [x.float() + y for x, y in zip(of_keys, others, strict=True)]
        return torch.stack(of_query, 2).flatten(1, 2) if group > 1 else of_query[0], *of_keys

    blocks.Block.attend, blocks.Block.differentiate = attend, differentiate


def torch_ring(problem: Problem) -> tuple[Attend, bool]:
    """PyTorch's ring, as its context_parallel runs it; that one is for GPUs. KV heads are repeated first."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as ring

    ring._cp_options.enable_load_balance = problem.causal

    def block(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, **_: Any) -> tuple[Tensor, ...]:
        return tuple(FLASH(q, k, v, is_causal=is_causal))

    def block_backward(**at: Any) -> Any:
        given = (at[name] for name in ("grad_out", "query", "key", "value", "out"))
        return FLASH_BACKWARD(*given, at["logsumexp"].float(), 0.0, at["is_causal"])

    class Ring(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out, lse = ring._templated_ring_attention(dist.group.WORLD, 2, block, q, k, v, problem.causal)
            ctx.save_for_backward(q, k, v, out, lse)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            q, k, v, out, lse = ctx.saved_tensors
            return ring._templated_ring_attention_backward(
                dist.group.WORLD, 2, block_backward, gradient, "grad_out", q, k, v, out, lse, problem.causal
            )[:3]

    group = problem.heads // problem.kv_heads
    return lambda q, k, v: Ring.apply(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)), problem.causal


class Flash:
    """The functions of flash_attn that others call, on PyTorch's CPU kernel: (batch, tokens, heads, d)."""

    @staticmethod
    def forward(*heads: Tensor, softmax_scale: float | None = None, causal: bool = False, **rest: Any) -> Any:
        """Output and log-sum-exp; KV heads are repeated for the block operator only."""
        q, k, v = (x.transpose(1, 2) for x in (heads or (rest["q"], rest["k"], rest["v"])))
        wide = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        output, lse = FLASH(q, *wide, 0.0, causal, scale=softmax_scale)
        return output.transpose(1, 2), lse

    @staticmethod
    def backward(*given: Any, **named: Any) -> None:
        """Writes dq, dk and dv."""
        names = ("dout", "q", "k", "v", "out", "softmax_lse", "dq", "dk", "dv", "dropout_p", "softmax_scale", "causal")
        at = {**dict(zip(names, given, strict=False)), **named}
        dout, q, k, v, out = (at[name].transpose(1, 2).contiguous() for name in ("dout", "q", "k", "v", "out"))
        group = q.shape[1] // k.shape[1]
        wide = (x.repeat_interleave(group, 1) for x in (k, v))
        lse = at["softmax_lse"].float().contiguous()
        found = FLASH_BACKWARD(dout, q, *wide, out, lse, 0.0, at["causal"], scale=at["softmax_scale"])
        at["dq"].copy_(found[0].transpose(1, 2))
        for into, each in zip((at["dk"], at["dv"]), found[1:], strict=True):
            into.copy_(each.unflatten(1, (-1, group)).float().sum(2).transpose(1, 2))


def _stub_flash_attention() -> None:
    """A flash_attn with the functions that are called."""

    def forward(**given: Any) -> Any:
        return *Flash.forward(**given), None, None

    def backward(**given: Any) -> None:
        Flash.backward(**given)

    package, interface = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.flash_attn_interface")
    package.__version__ = "2.8.0"
    names = ("_flash_attn_varlen_forward", "_flash_attn_varlen_backward", "flash_attn_func", "flash_attn_varlen_func")
    for name in names:
        setattr(interface, name, None)
        setattr(package, name, None)
    interface._flash_attn_forward, interface._flash_attn_backward = forward, backward
    package.flash_attn_interface = interface
    adapters = types.ModuleType("ring_flash_attn.adapters")  # for models of another transformers than is here
    adapters.substitute_hf_flash_attn = adapters.update_ring_flash_attn_params = None
    sys.modules |= {
        "flash_attn": package, "flash_attn.flash_attn_interface": interface, "ring_flash_attn.adapters": adapters,
    }  # fmt: skip


def ring_flash_attn(problem: Problem) -> tuple[Attend, bool]:
    from ring_flash_attn import ring_flash_attn_func, zigzag_ring_flash_attn_func

    function = zigzag_ring_flash_attn_func if problem.causal else ring_flash_attn_func

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        return function(*turned, causal=problem.causal).transpose(1, 2)

    return attend, problem.causal


def yunchang(problem: Problem) -> tuple[Attend, bool]:
    """USP with as many heads as it takes, the rest a ring of two at least: a ring of one sends to itself."""
    import yunchang.ring.ring_flash_attn as ring
    from yunchang import LongContextAttention, set_seq_parallel_pg
    from yunchang.kernels import AttnType

    if problem.causal:
        raise Refused("its zigzag takes tokens in an order of its own; dense problems have the same messages")

    ranks, rank = dist.get_world_size(), dist.get_rank()
    ulysses = max(each for each in range(1, ranks // 2 + 1) if ranks % each == 0 and problem.kv_heads % each == 0)
    ring.select_flash_attn_impl = lambda _type, stage, **_: Flash.forward if stage == "fwd-only" else Flash.backward
    set_seq_parallel_pg(ulysses, ranks // ulysses, rank, ranks)
    layer = LongContextAttention(ring_impl_type="basic", attn_type=AttnType.FA)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        return layer(*turned, causal=False).transpose(1, 2)

    return attend, False


def deepspeed_ulysses(problem: Problem) -> tuple[Attend, bool]:
    from deepspeed.sequence import layer as ulysses

    if problem.kv_heads % dist.get_world_size():
        raise Refused(f"{problem.kv_heads} KV heads on {dist.get_world_size()} ranks")

    ulysses.dist = dist  # its own communication compiles operators first, and then calls the same functions

    def local(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2) for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=problem.causal).transpose(1, 2)

    layer = ulysses.DistributedAttention(local, dist.group.WORLD, scatter_idx=2, gather_idx=1)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        return layer(*turned, 0).transpose(1, 2)

    return attend, False


def import_everything() -> None:
    """Before ranks are forked, so that it is done once."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    _stub_flash_attention()
    for name in (
        "attenio.cluster.executor.context", "torch.distributed.tensor.experimental._context_parallel._attention",
        "ring_flash_attn", "yunchang", "deepspeed.sequence.layer",
    ):  # fmt: skip
        import_module(name)


CONTENDERS = {
    "attenio": ours,
    "torch ring": torch_ring,
    "ring-flash-attn": ring_flash_attn,
    "yunchang": yunchang,
    "DeepSpeed-Ulysses": deepspeed_ulysses,
}
