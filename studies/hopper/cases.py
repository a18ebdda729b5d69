"""The questions of this study: calls of ours and of the peers on the same inputs, and how their errors are found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from attenio import attention
from attenio.measurement.contenders import backend, gradients_of, random_inputs
from attenio.measurement.exact import checked_part, exact_gradients
from attenio.measurement.jax_peer import jax_contender
from attenio.workload import Workload

LENGTHS = (2048, 4096, 8192, 16384, 32768)
TOKENS, HIDDEN = 16384, 2048
OURS = "attenio"
# No peer: how long the tensors of a case take to be read and written.
SAME_BYTES = "same bytes"
Inputs = tuple[Tensor, Tensor, Tensor]
Call = Callable[[], Any]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Seen = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Case:
    """One question: calls of ours and of the peers on the same inputs, and how much work they are."""

    name: str
    part: str
    flops: float
    # What the case is about, for the tables: d, n, mask.
    about: dict[str, Any]
    # Contenders by name, made when the case is measured; a contender gives its call for these inputs.
    inputs: Callable[[], Inputs]
    contenders: dict[str, Callable[[Inputs], Call]]
    target: float | None = None
    # For these inputs, how far a contender's results are from those of float64.
    error: Callable[[Inputs], Callable[[Any], float]] | None = None
    # Contenders whose work cannot be captured and takes seconds to compile: measured last, while there is time. They
    # give their own samples, in milliseconds.
    sampled: dict[str, Callable[[], list[float]]] = field(default_factory=dict)


def randoms(*shapes: tuple[int, ...]) -> Inputs:
    return tuple(torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes)  # type: ignore[return-value]


def on(call: Attend) -> Callable[[Inputs], Call]:
    """A function of tensors as a contender."""

    def prepared(inputs: Inputs) -> Call:
        def run() -> Tensor:
            with torch.no_grad():
                return call(*inputs)

        return run

    return prepared


def error_of_rows(seen: Seen | None) -> Callable[[Inputs], Callable[[Tensor], float]]:
    """Of the last 64 queries of the first sequence."""

    def known(inputs: Inputs) -> Callable[[Tensor], float]:
        q, k, v = inputs
        rows = slice(q.shape[2] - 64, q.shape[2])
        i, j = torch.arange(rows.start, rows.stop, device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
        exact = []
        for head in range(q.shape[1]):
            shared = head * k.shape[1] // q.shape[1]
            scores = q[0, head, rows].double() @ k[0, shared].double().T * q.shape[-1] ** -0.5
            if seen is not None:
                scores = scores.masked_fill(~seen(i, j), -torch.inf)
            exact.append(torch.softmax(scores, -1) @ v[0, shared].double())
        right = torch.stack(exact)
        return lambda output: float((output[0, :, rows].double() - right).abs().max())

    return known


def error_of_gradients(seen: Seen | None) -> Callable[[Inputs], Callable[[tuple[Tensor, ...]], float]]:
    """Of the last head of keys of the last sequence: of the last 64 queries and the first 64 keys and values."""

    def known(inputs: Inputs) -> Callable[[tuple[Tensor, ...]], float]:
        right = exact_gradients(inputs, gradient_for(inputs), seen, inputs[0].shape[-1] ** -0.5)
        return lambda found: max(
            float((mine.double() - theirs).abs().max()) for mine, theirs in zip(checked_part(found), right, strict=True)
        )

    return known


def gradient_for(inputs: Inputs) -> Tensor:
    """The gradient of the output that all contenders are given: as random as the values that it is made of."""
    group = inputs[0].shape[1] // inputs[2].shape[1]
    gradient = inputs[2].flip(2)[:, :, : inputs[0].shape[2]]
    return gradient if group == 1 else gradient.repeat_interleave(group, 1)


def flex(seen: Seen | None, n: int) -> Attend:
    """FlexAttention, compiled when it is first called; it skips blocks that the mask hides."""

    @cache
    def made() -> Attend:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        blocks = None
        if seen is not None:
            blocks = create_block_mask(lambda _b, _h, i, j: seen(i, j), None, None, n, n, device="cuda")
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda q, k, v: compiled(q, k, v, block_mask=blocks)

    return lambda q, k, v: made()(q, k, v)


def jax_samples(d: int, n: int, is_causal: bool, direction: str) -> dict[str, Callable[[], list[float]]]:
    """JAX's kernel for Hopper, in fp16, which is all it computes in; it has gradients without a mask only."""

    def samples() -> list[float]:
        heads = HIDDEN // d
        workload = Workload(
            n=n, d=d, heads=heads, batch=max(1, TOKENS // n), mask="causal" if is_causal else "dense", dtype="fp16",
            direction=direction,
        )  # fmt: skip
        peer = jax_contender(workload)
        if peer is None:
            raise RuntimeError("there is no JAX here that sees a GPU")
        inputs = random_inputs(workload, "cuda")
        call = (peer.forward if direction == "forward" else peer.backward)(inputs)
        found: list[float] = peer.gpu_samples([call], repeats=5)
        return found

    return {} if direction == "backward" and is_causal else {"jax": samples}


def causal(i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def forward() -> Iterator[Case]:
    for d in (64, 128, 256):
        for is_causal in (False, True):
            for n in LENGTHS:
                yield dense_case(d, n, is_causal)
    yield window_case()


def dense_case(d: int, n: int, is_causal: bool) -> Case:
    heads, batch, seen = HIDDEN // d, max(1, TOKENS // n), causal if is_causal else None
    shape = (batch, heads, n, d)
    contenders = {
        OURS: on(lambda q, k, v: attention(q, k, v, is_causal=is_causal)),
        "cudnn": on(backend(SDPBackend.CUDNN_ATTENTION, is_causal=is_causal)),
        "flash": on(backend(SDPBackend.FLASH_ATTENTION, is_causal=is_causal)),
    }
    if n == 8192 and d <= 128:  # compiling takes seconds, it is never the first, and at d=256 it is 20 times slower
        contenders["flex"] = on(flex(seen, n))
    return Case(
        name=f"forward d={d} {'causal' if is_causal else 'full'} n={n}", part="forward",
        flops=4.0 * batch * heads * n * n * d * (0.5 if is_causal else 1.0),
        about={"d": d, "n": n, "mask": "causal" if is_causal else "full"},
        inputs=lambda: randoms(shape, shape, shape), contenders=contenders,
        error=error_of_rows(seen), sampled=jax_samples(d, n, is_causal, "forward"),
    )  # fmt: skip


def pulled(call: Attend, *, deterministic: bool = False) -> Callable[[Inputs], Call]:
    """The backward pass of a function of tensors as a contender."""

    def prepared(inputs: Inputs) -> Call:
        gradients = gradients_of(call, inputs, gradient_for(inputs))

        def run() -> tuple[Tensor, ...]:
            torch.use_deterministic_algorithms(deterministic)
            torch.utils.deterministic.fill_uninitialized_memory = False  # it would time the filling
            try:
                found: tuple[Tensor, ...] = gradients()
                return found
            finally:
                torch.use_deterministic_algorithms(False)

        return run

    return prepared


def backward() -> Iterator[Case]:
    for d in (64, 128, 256):
        for is_causal in (False, True):
            for n in LENGTHS:
                yield backward_case(d, n, is_causal)


def deterministic() -> Iterator[Case]:
    for d in (64, 128, 256):
        for is_causal in (False, True):
            yield backward_case(d, 8192, is_causal, repeats=True)


def backward_case(d: int, n: int, is_causal: bool, *, repeats: bool = False) -> Case:
    """Gradients; with ``repeats`` those that repeat to the bit."""
    heads, batch = HIDDEN // d, max(1, TOKENS // n)
    shape, mask = (batch, heads, n, d), "causal" if is_causal else "full"
    seen = causal if is_causal else None
    contenders = {
        OURS: pulled(lambda q, k, v: attention(q, k, v, is_causal=is_causal, deterministic=repeats)),
        "flash": pulled(backend(SDPBackend.FLASH_ATTENTION, is_causal=is_causal), deterministic=repeats),
    }
    if not repeats:
        contenders["cudnn"] = pulled(backend(SDPBackend.CUDNN_ATTENTION, is_causal=is_causal))
        if n == 8192 and d == 128:  # as before: seconds of compiling for somebody who is never the first
            contenders["flex"] = pulled(flex(seen, n))
    part = "deterministic" if repeats else "backward"
    return Case(
        name=f"{part} d={d} {mask} n={n}", part=part,
        flops=10.0 * batch * heads * n * n * d * (0.5 if is_causal else 1.0),
        about={"d": d, "n": n, "mask": mask}, inputs=lambda: randoms(shape, shape, shape),
        contenders=contenders, target=2.0 if repeats else 1.3 if d == 256 else None,
        error=error_of_gradients(seen), sampled={} if repeats else jax_samples(d, n, is_causal, "backward"),
    )  # fmt: skip


def window_case() -> Case:
    n, width, heads, d = 16384, 1024, 16, 128
    shape = (1, heads, n, d)

    def seen(i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (j > i - width)

    return Case(
        name=f"forward d={d} window {width} n={n}", part="window", flops=4.0 * heads * n * width * d, target=1.3,
        about={"d": d, "n": n, "mask": f"window {width}"}, inputs=lambda: randoms(shape, shape, shape),
        contenders={OURS: on(lambda q, k, v: attention(q, k, v, window=width)), "flex": on(flex(seen, n))},
        error=error_of_rows(seen),
    )  # fmt: skip
