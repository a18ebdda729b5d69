"""Everything that computes one workload here: attenio's kernels, the backends of SDPA, FlexAttention, JAX's kernel."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.kernels import attention
from attenio.masks import Causal, Dense
from attenio.measurement.exact import Inputs, band_of, window_of
from attenio.measurement.result import OURS, OURS_REPEATING
from attenio.measurement.timing import Call, replayed_samples
from attenio.quantities import show_bytes
from attenio.workload import Workload

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
_BACKENDS = {
    "cpu": {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH},
    "cuda": {
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
    },
}
_TYPES = {ElementType.FP32: torch.float32, ElementType.FP16: torch.float16, ElementType.BF16: torch.bfloat16}
# A mask of booleans larger than this, which SDPA needs for a window, is not made.
_MOST_MASK_BYTES = 2**30


class Contender(Protocol):
    """An implementation that computes a workload: a call is prepared first, and only the call is timed."""

    def forward(self, inputs: Inputs) -> Call:
        """A call that computes the output of these inputs."""
        ...

    def backward(self, inputs: Inputs) -> Call:
        """A call that computes the gradients for a gradient of ones; an output is made before, or by the first call."""
        ...

    def tensors(self, returned: Any) -> tuple[Tensor, ...]:
        """What a call returned as tensors (batch, heads, tokens, width)."""
        ...

    def gpu_samples(self, calls: Sequence[Call], *, repeats: int) -> list[float]:
        """Milliseconds of one call on a GPU; calls differ in their inputs, so that its cache holds none of them."""
        ...


@dataclass(frozen=True)
class TorchContender:
    """A function of PyTorch tensors."""

    call: Attention

    def forward(self, inputs: Inputs) -> Call:
        """The output, without anything that only gradients need."""

        def forward() -> Tensor:
            with torch.no_grad():
                return self.call(*inputs)

        return forward

    def backward(self, inputs: Inputs) -> Call:
        """Gradients by autograd."""
        return gradients_of(self.call, inputs)

    def tensors(self, returned: Any) -> tuple[Tensor, ...]:
        """They are tensors already."""
        return returned if isinstance(returned, tuple) else (returned,)

    def gpu_samples(self, calls: Sequence[Call], *, repeats: int) -> list[float]:
        """By CUDA graphs."""
        return replayed_samples(calls, repeats=repeats)


def gradients_of(call: Attention, inputs: Inputs, gradient: Tensor | None = None) -> Call:
    """The backward pass of a function, for a gradient of ones unless given; its forward pass is not part of the call.

    Autograd runs a backward pass on the stream of its forward pass, which therefore runs again on every stream that
    the call is issued on: a CUDA graph holds what is done on one.
    """
    leaves = [x.detach().requires_grad_() for x in inputs]
    by_stream: dict[int, tuple[Tensor, Tensor]] = {}

    def gradients() -> tuple[Tensor, ...]:
        stream = torch.cuda.current_stream().cuda_stream if leaves[0].is_cuda else 0
        if stream not in by_stream:
            by_stream.clear()
            output = call(*leaves)  # type: ignore[arg-type, unused-ignore]
            by_stream[stream] = output, torch.ones_like(output) if gradient is None else gradient
        output, ones = by_stream[stream]
        gradients_of_leaves: tuple[Tensor, ...] = torch.autograd.grad(output, leaves, ones, retain_graph=True)
        return gradients_of_leaves

    return gradients


def memory_bytes(device: str) -> float:
    """What the device's memory holds; infinity where the system does not tell."""
    if device == "cuda":
        return float(torch.cuda.mem_get_info()[1])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def random_inputs(workload: Workload, device: str) -> Inputs:
    """Normal random queries, keys and values: on zeros a GPU draws less power and clocks higher.

    Values that are part of keys are a view of them, which whoever reads it may recognise.
    """
    dtype = _TYPES.get(workload.dtype)
    if dtype is None:
        raise InvalidInput(f"no kernel here computes in {workload.dtype.value}; use fp32, fp16 or bf16")
    needed, there = workload.compulsory_words * workload.dtype.bytes, memory_bytes(device)
    if needed > there:
        raise InvalidInput(
            f"inputs and outputs take {show_bytes(needed)} and the memory has {show_bytes(there)};"
            " ask for fewer tokens or heads"
        )
    shapes = (
        (workload.batch, workload.heads, workload.queries, workload.d),
        (workload.batch, workload.kv_heads, workload.keys, workload.d),
        (workload.batch, workload.kv_heads, workload.keys, workload.value_dim),
    )
    q, k, v = (torch.randn(shape, device=device).to(dtype) for shape in shapes)
    return q, k, k[..., : workload.value_dim] if workload.values_in_keys else v


def contenders(
    workload: Workload, device: str, *, flex: bool = False, jax: bool = True, repeating: bool = False
) -> dict[str, Contender]:
    """The contenders for this workload, ours first. JAX's kernel is among them on a GPU where JAX sees one.

    With ``repeating`` ours is there once more, with gradients that repeat to the bit.
    """
    window, options = window_of(workload), _sdpa_options(workload, device)
    grouped = workload.heads != workload.kv_heads

    def ours(*, repeats: bool) -> Contender:
        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attention(q, k, v, window=window, scale=workload.scale, enable_gqa=grouped, deterministic=repeats)

        return TorchContender(run)

    known = {OURS: ours(repeats=False)}
    if repeating:
        known[OURS_REPEATING] = ours(repeats=True)
    for name, each in _BACKENDS[device].items():
        known[f"sdpa {name}"] = TorchContender(backend(each, enable_gqa=grouped, scale=workload.scale, **options))
    if flex:
        known["flex"] = TorchContender(_flex(workload, device))
    if jax and device == "cuda":
        from attenio.measurement.jax_peer import jax_contender

        peer = jax_contender(workload)
        if peer is not None:
            known["jax mosaic"] = peer
    return known


def backend(which: SDPBackend, **options: Any) -> Attention:
    """One backend of SDPA and no other."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(which):
            output: Tensor = sdpa(q, k, v, **options)
            return output

    return call


def _sdpa_options(workload: Workload, device: str) -> dict[str, Any]:
    if isinstance(workload.mask, Dense) or (isinstance(workload.mask, Causal) and workload.queries == 1):
        return {}
    if isinstance(workload.mask, Causal) and workload.queries == workload.keys:
        return {"is_causal": True}
    if workload.queries * workload.keys > _MOST_MASK_BYTES:
        raise InvalidInput(
            f"SDPA needs {workload.queries:,} x {workload.keys:,} booleans for this mask; make the sequence shorter"
        )
    left, right = band_of(workload)
    i = torch.arange(workload.queries, device=device)[:, None] + workload.keys - workload.queries
    j = torch.arange(workload.keys, device=device)
    return {"attn_mask": (j >= i - left) & (j <= i + right)}


def _flex(workload: Workload, device: str) -> Attention:
    """FlexAttention, compiled; it skips the blocks that a mask hides."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    left, right = band_of(workload)
    shift = workload.keys - workload.queries

    def visible(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j >= i + shift - left) & (j <= i + shift + right)

    blocks = None
    if not isinstance(workload.mask, Dense):
        blocks = create_block_mask(visible, None, None, workload.queries, workload.keys, device=device)
    compiled = torch.compile(flex_attention)
    grouped = workload.heads != workload.kv_heads
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks, scale=workload.scale, enable_gqa=grouped)
