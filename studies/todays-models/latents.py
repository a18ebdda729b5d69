"""Cases of latents for this study: decode with keys 576 wide whose first 512 columns are the values.

``run.py --only latents`` measures them; contenders that are a hundred times slower take their turns afterwards.
"""

import gc
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention

D, VALUES = 576, 512
# Requests, query heads on one latent, keys: DeepSeek-V3 on one GPU and on one of eight, and a single long request.
# Others take a hundred times as long, and PyTorch repeats keys for every head: 38 GB for 32 requests of 128 heads.
SLOW_SCORES = 2**21
SIZES = ((32, 128, 8192), (64, 128, 8192), (1, 128, 131072), (128, 128, 4096), (64, 16, 8192), (1, 16, 131072))


def measured(size: tuple[int, int, int], timing: Callable[[Any], dict[str, list[float]]]) -> dict[str, Any]:
    """Samples of reading the latent once, of values that are a copy, and of PyTorch, with the first request's error."""
    requests, heads, keys = size
    q = torch.randn(requests, heads, 1, D, device="cuda").bfloat16()
    k = torch.randn(requests, 1, keys, D, device="cuda").bfloat16()
    apart = k[..., :VALUES].clone()
    calls = {"read once": lambda: attention(q, k, k[..., :VALUES], enable_gqa=True)}
    if requests * heads * keys <= SLOW_SCORES:
        calls["values apart"] = lambda: attention(q, k, apart, enable_gqa=True)
        calls["PyTorch"] = lambda: scaled_dot_product_attention(q, k, apart, enable_gqa=True)
    right, found = exact(q[0, :, 0], k[0, 0]), dict[str, Any]()
    for name, call in list(calls.items()):
        try:
            output = call()[0, :, 0].double()
        except Exception as problem:  # each refuses in its own way
            found[name] = {"refused": (str(problem).splitlines() or [type(problem).__name__])[0][:160]}
            del calls[name]
            continue
        found[name] = {"relative_error": float((output - right).norm() / right.norm())}
    flops, moved = 2.0 * requests * heads * keys * (D + VALUES), 2.0 * requests * keys * D
    # The others take a hundred times as long: in turns with them a GPU is found at other clocks than a server's.
    slow = {name: call for name, call in calls.items() if name != "read once"}
    for name, samples in {**timing({"read once": calls["read once"]}), **timing(slow)}.items():
        median = statistics.median(samples)
        found[name] |= {
            "samples_ms": samples, "median_ms": median, "tflop_per_s": flops / median / 1e9,
            "latent_gb_per_s": moved / median / 1e6,
        }  # fmt: skip
    calls.clear()
    gc.collect()
    torch.cuda.empty_cache()
    return {"case": f"latents, {requests} x {heads} heads x {keys:,} x {D}/{VALUES}", "contenders": found}


def exact(q: Tensor, k: Tensor) -> Tensor:
    weights = (q.double() @ k.double().T * D**-0.5).softmax(-1)
    return weights @ k[:, :VALUES].double()
