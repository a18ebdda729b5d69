"""Laws of handing data to JAX's kernel; PyTorch stands in for JAX, which is not part of the test install."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attenio.errors import InvalidInput
from attenio.measurement.exact import compared, exact_part
from attenio.measurement.jax_peer import JaxContender
from attenio.workload import Workload

KERNEL_TILES = (128, 64)


def attention(q: Any, k: Any, v: Any, config: Any) -> Any:
    """As JAX's kernel: (batch, tokens, heads, width), no factor on the scores, and only some tiles fit."""
    if config["block_kv"] not in KERNEL_TILES:
        raise ValueError("exceeds available shared memory")
    heads = (x.transpose(1, 2).float() for x in (q, k, v))
    found = scaled_dot_product_attention(*heads, scale=1.0, is_causal=config["causal"], enable_gqa=True)
    return found.transpose(1, 2).to(q.dtype)


def vjp(function: Any, *arrays: Any) -> Any:
    leaves = [x.detach().requires_grad_() for x in arrays]
    output = function(*leaves)
    return output, lambda gradient: torch.autograd.grad(output, leaves, gradient, retain_graph=True)


JAX = SimpleNamespace(
    dlpack=SimpleNamespace(from_dlpack=lambda x: x),
    numpy=SimpleNamespace(ones_like=torch.ones_like),
    block_until_ready=lambda x: x,
    jit=lambda function: function,
    vjp=vjp,
)
KERNELS = SimpleNamespace(attention=attention, TuningConfig=dict)


def contender(**options: Any) -> tuple[Workload, JaxContender, Any]:
    workload = Workload(**{"n": 128, "d": 64, "heads": 4, "kv_heads": 2, "dtype": "fp16", **options})
    torch.manual_seed(0)
    shapes = [(2, 4, workload.queries, 64), (2, 2, workload.keys, 64), (2, 2, workload.keys, 64)]
    return workload, JaxContender(workload, JAX, KERNELS), tuple(torch.randn(shape).half() for shape in shapes)


@pytest.mark.parametrize(
    "options",
    [{}, {"mask": "causal"}, {"scale": 0.3}, {"direction": "backward"}, {"direction": "backward", "scale": 0.3}],
)
def test_outputs_and_gradients_come_back_as_everybody_elses(options: dict[str, Any]) -> None:
    workload, peer, inputs = contender(**options)
    call = (peer.backward if "direction" in options else peer.forward)(inputs)
    found = peer.tensors(call())
    assert [x.shape for x in found] == [x.shape for x in inputs][: len(found)]
    error = compared(workload, found, exact_part(workload, inputs))
    assert error is not None and error < 2e-2


def test_every_repeat_is_a_sample_whatever_the_number_of_inputs() -> None:
    _, peer, inputs = contender()
    calls = [peer.forward(inputs)] * 3
    assert len(peer.gpu_samples(calls, repeats=2)) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "bf16"}, "computes in fp16"),
        ({"mask": "window:9"}, "dense and causal"),
        ({"n": None, "queries": 1, "keys": 128}, "multiples of 128"),
        ({"direction": "backward", "mask": "causal"}, "dense attention only"),
    ],
)
def test_what_the_kernel_does_not_take_is_refused_with_a_reason(options: dict[str, Any], said: str) -> None:
    _, peer, inputs = contender(**options)
    with pytest.raises(InvalidInput, match=said):
        (peer.backward if "direction" in options else peer.forward)(inputs)


def test_a_kernel_that_no_tile_fits_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.KERNEL_TILES", ())
    _, peer, inputs = contender()
    with pytest.raises(InvalidInput, match="exceeds available shared memory"):
        peer.forward(inputs)
