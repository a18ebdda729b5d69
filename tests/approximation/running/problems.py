"""Random bounded problems, and exact attention to hold approximate attention against."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def bounded(
    *, radius: float, n: int = 90, m: int | None = None, heads: int = 2, group: int = 1, d: int = 8, value_dim: int = 5
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values in float64 whose centred scores stay within the radius; keys are off centre."""
    query = torch.rand(1, heads * group, n, d, dtype=torch.float64) - 0.5
    key = torch.rand(1, heads, m or n, d, dtype=torch.float64) - 0.5
    value = torch.rand(1, heads, m or n, value_dim, dtype=torch.float64) * 2 - 0.7
    reach = query.norm(dim=-1).max() * (key - key.mean(-2, keepdim=True)).norm(dim=-1).max() * d**-0.5
    return query * (0.95 * radius / reach), key + 0.3, value


def exact(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    wide = (tensor.to(torch.float64) for tensor in (query, key, value))
    return scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=query.dim() > 2)


def furthest(one: Tensor, other: Tensor) -> float:
    return float((one.to(torch.float64) - other.to(torch.float64)).abs().max())
