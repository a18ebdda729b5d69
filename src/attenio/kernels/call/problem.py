"""One attention call as the kernels see it: heads grouped by the keys they share, and what each query may see."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attenio.kernels.call.dropout import Dropout
from attenio.kernels.call.latent import are_values_in_keys
from attenio.kernels.call.visibility import ProblemTile, Visibility


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelProblem:
    """Queries (batch, KV heads, group, queries, d), keys and values (batch, KV heads, keys, width).

    The first ``prefix`` keys of all sequences are those of the first. ``deterministic`` asks for gradients that repeat
    to the bit; kernels whose gradients always do pass it over. ``is_part`` says that rows see more keys than these, and
    that what a backward pass begins with was summed over all of them. Scores s become ``softcap`` tanh(s / ``softcap``)
    before anything is added to them or hidden; 0 for no cap. ``sinks`` of a forward pass: a logit for each head. Where
    ``only_output`` is asked for, kernels may leave statistics of rows unwritten.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Visibility
    scale: float
    prefix: int = 0
    dropout: Dropout | None = None
    deterministic: bool = False
    is_part: bool = False
    softcap: float = 0.0
    sinks: Tensor | None = None
    only_output: bool = False

    @classmethod
    def of_heads(
        cls, query: Tensor, key: Tensor, value: Tensor, visible: Visibility, scale: float, **rest: object
    ) -> "KernelProblem":
        """From queries (batch, heads, queries, d)."""
        batch, heads, queries, d = query.shape
        grouped = query.view(batch, key.shape[1], heads // max(1, key.shape[1]), queries, d)
        return cls(query=grouped, key=key, value=value, visible=visible, scale=scale, **rest)  # type: ignore[arg-type]

    @property
    def batch(self) -> int:
        """Sequences."""
        return int(self.query.shape[0])

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return int(self.query.shape[1])

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return int(self.query.shape[2])

    @property
    def queries(self) -> int:
        """Queries of a sequence."""
        return int(self.query.shape[3])

    @property
    def keys(self) -> int:
        """Keys of a sequence."""
        return int(self.key.shape[2])

    @property
    def precision(self) -> torch.dtype:
        """What is computed in: single precision, or double for double."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    @cached_property
    def values_in_keys(self) -> bool:
        """Whether values are the first columns of their keys, in the same memory: one latent."""
        return are_values_in_keys(self.key, self.value)

    @cached_property
    def everything(self) -> ProblemTile:
        """The whole problem as one part."""
        whole = (self.batch, self.kv_heads, self.queries, self.keys)
        return ProblemTile(*(slice(0, size) for size in whole))
