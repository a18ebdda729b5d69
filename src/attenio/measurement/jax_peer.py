"""JAX's attention kernel for Hopper (Pallas, Mosaic GPU) as a contender: data change hands by DLPack, without a copy.

It wants (batch, tokens, heads, width), fp16, lengths that are multiples of its tiles and no factor on the scores, so
that queries are scaled beforehand. Its gradient exists without a mask only.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense
from attenio.measurement.exact import Inputs
from attenio.measurement.timing import Call
from attenio.workload import Workload

_ROWS = 64
_KEY_TILES = (256, 128, 64)
_WARM, _TRIED = 2, 3


def jax_contender(workload: Workload) -> "JaxContender | None":
    """The contender, or None where JAX is missing or sees no GPU."""
    # Left alone JAX takes three quarters of the GPU's memory when it is first used.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
        from jax.experimental.pallas.ops.gpu import attention_mgpu

        jax.devices("gpu")
    except (ImportError, RuntimeError):
        return None
    return JaxContender(workload, jax, attention_mgpu)


@dataclass(frozen=True)
class JaxContender:
    """The kernel with the fastest of its key tiles."""

    workload: Workload
    jax: Any
    kernels: Any

    def forward(self, inputs: Inputs) -> Call:
        """The output for one choice of tiles."""
        arrays = self._arrays(inputs)
        config = self._fastest(
            [{"block_kv": tile} for tile in _KEY_TILES], lambda found: lambda: self.kernels.attention(*arrays, found)
        )
        return lambda: self.kernels.attention(*arrays, config)

    def backward(self, inputs: Inputs) -> Call:
        """The gradients, by JAX's own pullback, compiled."""
        if not isinstance(self.workload.mask, Dense):
            raise InvalidInput("JAX's kernel has a gradient for dense attention only")
        arrays = self._arrays(inputs)
        pull = self.jax.jit(lambda pullback, gradient: pullback(gradient))

        def prepared(config: Any) -> Call:
            output, pullback = self.jax.vjp(lambda q, k, v: self.kernels.attention(q, k, v, config), *arrays)
            ones = self.jax.numpy.ones_like(output)
            return lambda: pull(pullback, ones)

        tiles = ("block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
        options = [{"block_kv": 64, "compute_wgs_bwd": groups, **dict.fromkeys(tiles, 64)} for groups in (1, 2)]
        return prepared(self._fastest(options, prepared))

    def tensors(self, returned: Any) -> tuple[Tensor, ...]:
        """(batch, heads, tokens, width) again; the gradient of the scaled queries is scaled."""
        arrays = returned if isinstance(returned, tuple) else (returned,)
        q, *rest = (torch.from_dlpack(each).transpose(1, 2) for each in arrays)
        return (q * self.workload.softmax_scale if rest else q, *rest)

    def gpu_samples(self, calls: Sequence[Call], *, repeats: int) -> list[float]:
        """By the clock of the host, for so many calls in flight that launches are hidden."""
        one = self._milliseconds(calls, _WARM)
        runs = max(len(calls), min(200, int(50 / max(one, 1e-3))))
        return [self._milliseconds(calls, runs) for _ in range(repeats)]

    def _milliseconds(self, calls: Sequence[Call], runs: int) -> float:
        self.jax.block_until_ready(calls[0]())
        start = time.perf_counter()
        for run in range(runs):
            returned = calls[run % len(calls)]()
        self.jax.block_until_ready(returned)
        return (time.perf_counter() - start) * 1e3 / runs

    def _arrays(self, inputs: Inputs) -> list[Any]:
        if self.workload.dtype is not ElementType.FP16:
            raise InvalidInput("JAX's kernel computes in fp16; ask for --dtype fp16 to time it")
        if not isinstance(self.workload.mask, Dense | Causal) or self.workload.value_dim != self.workload.d:
            raise InvalidInput("JAX's kernel computes dense and causal attention with values as wide as keys")
        if self.workload.queries % (2 * _ROWS) or (
            isinstance(self.workload.mask, Causal) and self.workload.queries != self.workload.keys
        ):
            raise InvalidInput(f"JAX's kernel takes queries in multiples of {2 * _ROWS}, causal ones as many as keys")
        q, k, v = inputs
        ordered = (x.transpose(1, 2).contiguous() for x in (q * self.workload.softmax_scale, k, v))
        arrays = [self.jax.dlpack.from_dlpack(x) for x in ordered]
        if q.is_cuda:
            torch.cuda.synchronize()  # JAX has streams of its own
        return arrays

    def _fastest(self, options: Sequence[dict[str, int]], prepared: Callable[[Any], Call]) -> Any:
        """The configuration whose call takes least; those that do not fit are passed over."""
        times, problem = [], ""
        for number, each in enumerate(options):
            try:
                config = self.kernels.TuningConfig(
                    block_q=_ROWS, max_concurrent_steps=2, causal=isinstance(self.workload.mask, Causal), **each
                )
                times.append((self._milliseconds([prepared(config)], _TRIED), number, config))
            except (RuntimeError, ValueError) as refusal:
                problem = str(refusal).strip()
        if not times:
            raise InvalidInput(f"JAX's kernel refuses: {problem.splitlines()[0] if problem else 'no reason given'}")
        return min(times)[2]
