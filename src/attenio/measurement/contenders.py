"""Everything that computes one workload here: attenio's kernels, the backends of SDPA, FlexAttention."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.kernels import attention
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.workload import Workload

__all__ = ["OURS", "Attention", "backend", "contenders", "definition_rows", "random_inputs"]

OURS = "attenio"
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Inputs = tuple[Tensor, Tensor, Tensor]
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


def random_inputs(workload: Workload, device: str) -> Inputs:
    """Normal random queries, keys and values: on zeros a GPU draws less power and clocks higher."""
    dtype = _TYPES.get(workload.dtype)
    if dtype is None:
        raise InvalidInput(f"no kernel here computes in {workload.dtype.value}; use fp32, fp16 or bf16")
    shapes = (
        (workload.batch, workload.heads, workload.queries, workload.d),
        (workload.batch, workload.kv_heads, workload.keys, workload.d),
        (workload.batch, workload.kv_heads, workload.keys, workload.value_dim),
    )
    q, k, v = (torch.randn(shape, device=device).to(dtype) for shape in shapes)
    return q, k, v


def contenders(workload: Workload, device: str, *, flex: bool = False) -> dict[str, Attention]:
    """Who computes this workload; ours is the first."""
    window, options = _window(workload), _sdpa_options(workload, device)
    grouped = workload.heads != workload.kv_heads
    found: dict[str, Attention] = {
        OURS: lambda q, k, v: attention(q, k, v, enable_gqa=grouped, window=window, scale=workload.scale)
    }
    for name, each in _BACKENDS[device].items():
        found[f"sdpa {name}"] = backend(each, enable_gqa=grouped, scale=workload.scale, **options)
    if flex:
        found["flex"] = _flex(workload, device)
    return found


def backend(which: SDPBackend, **options: Any) -> Attention:
    """One backend of SDPA and no other."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(which):
            found: Tensor = sdpa(q, k, v, **options)
            return found

    return call


def definition_rows(workload: Workload, inputs: Inputs, rows: slice) -> Tensor:
    """The definition in double precision, for some queries of the first sequence: (1, heads, rows, width)."""
    q, k, v = inputs
    first, second = _band(workload)
    positions = torch.arange(workload.queries, device=q.device)[rows, None] + workload.keys - workload.queries
    keys = torch.arange(workload.keys, device=q.device)
    hidden = (keys < positions - first) | (keys > positions + second)
    out = []
    for head in range(workload.heads):
        shared = head // workload.group
        scores = q[0, head, rows].double() @ k[0, shared].double().T * workload.softmax_scale
        out.append(torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ v[0, shared].double())
    return torch.stack(out)[None]


def _window(workload: Workload) -> tuple[int, int] | None:
    """attention()'s window for a mask; all masks of attenio put the last query at the last key."""
    match workload.mask:
        case Dense():
            return None
        case Causal():
            return -1, 0
        case SlidingWindow(width=width):
            return width - 1, 0
        case _:
            raise InvalidInput(f"bench times dense, causal and window masks, and not {workload.mask}; choose one")


def _band(workload: Workload) -> tuple[int, int]:
    """Keys before and after a query's own that it sees."""
    left, right = _window(workload) or (-1, -1)
    everything = workload.queries + workload.keys
    return (everything if left < 0 else left), (everything if right < 0 else right)


def _sdpa_options(workload: Workload, device: str) -> dict[str, Any]:
    if isinstance(workload.mask, Dense) or (isinstance(workload.mask, Causal) and workload.queries == 1):
        return {}
    if isinstance(workload.mask, Causal) and workload.queries == workload.keys:
        return {"is_causal": True}
    if workload.queries * workload.keys > _MOST_MASK_BYTES:
        raise InvalidInput(
            f"SDPA needs {workload.queries:,} x {workload.keys:,} booleans for this mask; make the sequence shorter"
        )
    left, right = _band(workload)
    i = torch.arange(workload.queries, device=device)[:, None] + workload.keys - workload.queries
    j = torch.arange(workload.keys, device=device)
    return {"attn_mask": (j >= i - left) & (j <= i + right)}


def _flex(workload: Workload, device: str) -> Attention:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    left, right = _band(workload)
    shift = workload.keys - workload.queries

    def visible(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j >= i + shift - left) & (j <= i + shift + right)

    blocks = None
    if not isinstance(workload.mask, Dense):
        blocks = create_block_mask(visible, None, None, workload.queries, workload.keys, device=device)
    compiled = torch.compile(flex_attention)
    grouped = workload.heads != workload.kv_heads
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks, scale=workload.scale, enable_gqa=grouped)
