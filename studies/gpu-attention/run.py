"""How fast is attention() on this GPU, beside every peer that PyTorch has, in one run?

    PYTHONPATH=src python studies/gpu-attention/run.py

writes results.json beside this file (or to the folder given as the first argument): every sample of every contender,
GPU time only (CUDA graphs, inputs rotated so that the cache holds none of them), errors against float64, and what made
it. A case that was measured at the same commit is not measured again. ``answer.py`` turns it into answer.md.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attenio import attention, explain
from attenio.files import write_atomically
from attenio.kernels import Explanation
from attenio.kernels import triton as portable_kernels
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.replay import repeating
from attenio.kernels.torch_operator import operators
from attenio.kernels.triton.feature_function import attend_by_features
from attenio.masks import Causal
from attenio.measurement.contenders import backend
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu
from attenio.measurement.timing import ROTATED_BYTES, event_samples, replayed_samples

SEED = 0
REPEATS = 25
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
BF16 = torch.bfloat16
Inputs = tuple[Tensor, Tensor, Tensor]


@dataclass
class Case:
    """One question: a call of ours, the peers' calls, and how much work it is.

    A graph has ``calls`` calls at least: starting one takes microseconds, which belong to no contender.
    """

    name: str
    target: float | None
    flops: float
    compulsory_bytes: float
    inputs: Callable[[], Inputs]
    ours: Callable[..., Tensor]
    peers: dict[str, Callable[..., Tensor]]
    backward: bool = False
    exact: Callable[..., Tensor] | None = None
    calls: int = 1
    extra: dict[str, Any] = field(default_factory=dict)


def randoms(*shapes: tuple[int, ...]) -> Inputs:
    return tuple(torch.randn(shape, device="cuda", dtype=BF16) for shape in shapes)  # type: ignore[return-value]


def peers(**options: Any) -> dict[str, Callable[..., Tensor]]:
    return {name: backend(each, **options) for name, each in BACKENDS.items()}


def checked_rows(q: Tensor, case: "Case | None" = None) -> Tensor:
    """The last 64 queries, or 64 over the whole length where the case asks for it."""
    rows = min(64, q.shape[2])
    if case is not None and "tolerance" in case.extra:
        return torch.linspace(0, q.shape[2] - 1, rows, device="cuda").long()
    return torch.arange(q.shape[2] - rows, q.shape[2], device="cuda")


def exact_rows(
    q: Tensor, k: Tensor, v: Tensor, seen: Callable[[Tensor, Tensor], Tensor] | None = None, rows: Tensor | None = None
) -> Tensor:
    """float64 output of these queries of the first sequence; the last 64 unless given."""
    group, rows = q.shape[1] // k.shape[1], checked_rows(q) if rows is None else rows
    query = q[:1].index_select(2, rows).double()
    out = []
    for head in range(q.shape[1]):
        scores = query[0, head] @ k[0, head // group].double().T * q.shape[-1] ** -0.5
        if seen is not None:
            i = rows[:, None] + k.shape[2] - q.shape[2]
            scores = scores.masked_fill(~seen(i, torch.arange(k.shape[2], device="cuda")), -torch.inf)
        out.append(torch.softmax(scores, -1) @ v[0, head // group].double())
    return torch.stack(out)[None]


def causal(i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def decode(batch: int, keys: int, target: float) -> Case:
    size = batch * keys * 8 * 128
    return Case(
        f"decode, {batch} x {keys} keys, 32/8 heads, d=128", target, 16 * size, 4 * size,
        lambda: randoms((batch, 32, 1, 128), (batch, 8, keys, 128), (batch, 8, keys, 128)),
        lambda q, k, v: attention(q, k, v, enable_gqa=True), peers(enable_gqa=True), exact=exact_rows,
        calls=max(4, 2**19 // (batch * keys)),
    )  # fmt: skip


def masked_decode(
    kind: str, *, queries: int = 1, keys: int = 8192, dtype: torch.dtype = BF16, repeated: bool = False,
    deterministic: bool = False,
) -> Case:  # fmt: skip
    """A decode step under a mask; ``repeated`` calls SDPA as transformers does, with keys copied for every head."""
    batch = 8
    size = batch * keys * 8 * 128
    if kind == "bias of heads":
        mask = torch.randn(batch, 32, queries, keys, device="cuda", dtype=dtype)
    else:
        mask = torch.rand(batch, 1, queries, keys, device="cuda") > 0.3
    named = [f"{queries} queries"] * (queries > 1) + ["fp32"] * (dtype == torch.float32)
    named += ["keys repeated for SDPA"] * repeated + ["deterministic algorithms"] * deterministic

    def inputs() -> Inputs:
        shapes = (batch, 32, queries, 128), (batch, 8, keys, 128), (batch, 8, keys, 128)
        return tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)  # type: ignore[return-value]

    def peer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if repeated:
            return sdpa(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1), attn_mask=mask)
        return sdpa(q, k, v, attn_mask=mask, enable_gqa=True)

    def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x[:1].double().repeat_interleave(4, 1) for x in (k, v))
        scores = q[:1].double() @ k.mT * 128**-0.5
        first = mask[:1]
        scores = scores + first.double() if first.is_floating_point() else scores.masked_fill(~first, -torch.inf)
        return torch.softmax(scores, -1) @ v

    return Case(
        ", ".join([f"decode with a {kind}, {batch} x {keys} keys, 32/8 heads, d=128", *named]),
        5.0, 16 * queries * size, 2 * size * dtype.itemsize, inputs,
        lambda q, k, v: attention(q, k, v, attn_mask=mask, enable_gqa=True),
        {"sdpa": peer}, exact=exact, calls=8, extra={"deterministic": deterministic},
    )  # fmt: skip


def prefix() -> Case:
    requests, common, keys = 64, 32768, 32768 + 512

    def inputs() -> Inputs:
        q, k, v = randoms((requests, 32, 1, 128), (requests, 8, keys, 128), (requests, 8, keys, 128))
        k[:, :, :common], v[:, :, :common] = k[:1, :, :common], v[:1, :, :common]
        return q, k, v

    moved = 4 * 8 * 128 * (common + requests * 512)
    return Case(
        "64 requests behind 32768 shared keys, 512 of their own", 10.0, 16 * requests * keys * 8 * 128, moved, inputs,
        lambda q, k, v: attention(q, k, v, enable_gqa=True, prefix=common), peers(enable_gqa=True), exact=exact_rows,
    )  # fmt: skip


def window() -> Case:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n, width, heads = 16384, 1024, 16
    block_mask = create_block_mask(lambda b, h, i, j: (j <= i) & (j > i - width), None, None, n, n, device="cuda")
    flex = torch.compile(flex_attention)
    return Case(
        "sliding window 1024 at n=16384, 16 heads, d=128", 1.3, 4 * heads * n * width * 128, 8 * heads * n * 128,
        lambda: randoms(*[(1, heads, n, 128)] * 3),
        lambda q, k, v: attention(q, k, v, window=width),
        {"flex": lambda q, k, v: flex(q, k, v, block_mask=block_mask), **peers(is_causal=True)},
        exact=lambda q, k, v: exact_rows(q, k, v, lambda i, j: (j <= i) & (j > i - width)),
    )  # fmt: skip


@contextmanager
def portable() -> Iterator[None]:
    """The kernels in portable Triton alone, as on a GPU that has none of its own."""
    chosen = operators.backend_of
    operators.backend_of = lambda _tensor: portable_kernels
    repeating.forget()  # else kernels of an earlier case run again
    try:
        yield
    finally:
        operators.backend_of = chosen
        repeating.forget()


def dense(d: int, n: int, is_causal: bool, backward: bool) -> Case:
    heads, batch = 2048 // d, 16384 // n
    flops = 4 * batch * heads * n * n * d * (0.5 if is_causal else 1.0) * (2.5 if backward else 1.0)
    shape, pass_ = (batch, heads, n, d), "backward" if backward else "forward"
    rest = peers(is_causal=is_causal)
    return Case(
        f"{pass_} in portable Triton, n={n}, d={d}, {'causal' if is_causal else 'full'}", None, flops,
        (16 if backward else 8) * batch * heads * n * d, lambda: randoms(shape, shape, shape),
        lambda q, k, v: attention(q, k, v, is_causal=is_causal, deterministic=True),
        {name: call for name, call in rest.items() if name != "efficient"}, backward=backward,
        exact=None if backward else lambda q, k, v: exact_rows(q, k, v, causal if is_causal else None),
        extra={"portable": True},
    )  # fmt: skip


def deterministic(d: int) -> Case:
    case = dense(d, 8192, False, True)
    case.name, case.target = f"deterministic backward, n=8192, d={d}", 1.5
    case.peers = {"flash, deterministic": backend(SDPBackend.FLASH_ATTENTION)}
    case.extra = {"deterministic": True}
    return case


def approximate(is_causal: bool) -> Case:
    """Rows of one length, as normalised queries and keys have, so that no score exceeds 1: degree 2 by certificate."""
    n, d, tolerance = 262144, 64, 0.05

    def inputs() -> Inputs:
        q, k, v = (torch.randn(1, 1, n, d, device="cuda") for _ in range(3))
        q, k = (torch.nn.functional.normalize(x, dim=-1) * d**0.25 for x in (q, k))
        return q.to(BF16), k.to(BF16), v.to(BF16)

    rest = peers(is_causal=is_causal)
    case = Case(
        f"degree 2, n={n}, d={d}, {'causal' if is_causal else 'full'}", None,
        4 * n * n * d * (0.5 if is_causal else 1.0), 8 * n * d, inputs,
        lambda q, k, v: attention(q, k, v, is_causal=is_causal, tolerance=tolerance),
        {name: call for name, call in rest.items() if name != "efficient"},
        extra={"tolerance": lambda q, k, v: explain(q, k, v, is_causal=is_causal, tolerance=tolerance)},
    )  # fmt: skip
    case.exact = lambda q, k, v: exact_rows(q, k, v, causal if is_causal else None, checked_rows(q, case))
    return case


def cases() -> Iterator[Callable[[], Case]]:
    yield lambda: decode(1, 8192, 1.3)
    yield lambda: decode(1, 131072, 1.0)
    yield lambda: decode(64, 8192, 0.97)
    yield lambda: masked_decode("mask")
    yield lambda: masked_decode("mask", queries=4)
    yield prefix
    yield window
    yield lambda: approximate(False)
    yield lambda: approximate(True)
    yield lambda: masked_decode("bias of heads")
    yield lambda: masked_decode("mask", queries=4, keys=8191)
    yield lambda: masked_decode("mask", repeated=True)
    yield lambda: masked_decode("mask", deterministic=True)
    yield lambda: masked_decode("mask", dtype=torch.float32)
    yield lambda: deterministic(128)
    yield lambda: deterministic(64)
    for d in (64, 128, 256):
        for is_causal in (False, True):
            yield lambda d=d, c=is_causal: dense(d, 8192, c, False)
    for d in (64, 128, 256):
        yield lambda d=d: dense(d, 8192, False, True)


def backward_samples(call: Callable[..., Tensor], inputs: Inputs) -> list[float]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    output = call(*leaves)
    gradient = torch.randn_like(output)
    return event_samples(lambda: torch.autograd.grad(output, leaves, gradient, retain_graph=True), repeats=7)


def told(found: Explanation, inputs: Inputs) -> dict[str, Any]:
    """What was certified of these inputs, and the GPU time of the kernels under that certificate alone."""
    assert found.way is not None and found.way.promise is not None
    query, key, value = inputs
    problem = KernelProblem.of_heads(query, key, value, Visibility(group=1), query.shape[-1] ** -0.5)
    promise, is_causal = found.way.promise, isinstance(found.plan.workload.mask, Causal)
    with torch.no_grad():
        samples = replayed_samples([lambda: attend_by_features(problem, promise, causal=is_causal)], repeats=REPEATS)
    return {**found.way.to_json(), "kernels_ms": statistics.median(samples), "kernels_samples_ms": samples}


def measured(case: Case) -> dict[str, Any]:
    one = case.inputs()
    size = sum(x.numel() * x.element_size() for x in one)
    sets = [one, *(case.inputs() for _ in range(min(7, ROTATED_BYTES // size)))]
    contenders = {"attenio": case.ours, **case.peers}
    found: dict[str, Any] = {}
    for name, call in contenders.items():
        torch.use_deterministic_algorithms(bool(case.extra.get("deterministic")))
        kernels = portable() if case.extra.get("portable") else nullcontext()
        try:
            if case.backward:
                with kernels:
                    samples, error = backward_samples(call, one), None
            else:
                with torch.no_grad(), kernels:
                    if "tolerance" in case.extra:  # what data allow is found in the call, which no graph can hold
                        samples = event_samples(lambda call=call: call(*one), repeats=9)
                    else:
                        calls = [lambda a=a, call=call: call(*a) for a in sets]
                        samples = replayed_samples(calls * -(-case.calls // len(calls)), repeats=REPEATS)
                    error = None
                    if case.exact is not None and "flash" not in name:
                        mine = call(*one)[:1].index_select(2, checked_rows(one[0], case))
                        error = float((mine.double() - case.exact(*one)).abs().max())
        except (RuntimeError, ValueError) as problem:  # a backend that refuses a shape is no contender
            found[name] = {"refused": str(problem).splitlines()[0][:120]}
            continue
        finally:
            torch.use_deterministic_algorithms(False)
        ms = statistics.median(samples)
        found[name] = {
            "median_ms": ms, "tflop_per_s": case.flops / ms / 1e9, "gb_per_s": case.compulsory_bytes / ms / 1e6,
            "max_abs_error": error, "samples_ms": samples,
        }  # fmt: skip
    timed = [entry["median_ms"] for name, entry in found.items() if name != "attenio" and "median_ms" in entry]
    ratio = min(timed) / found["attenio"]["median_ms"] if timed and "median_ms" in found["attenio"] else None
    row = {"case": case.name, "target": case.target, "ratio_to_best_peer": ratio, "contenders": found}
    if "tolerance" in case.extra:
        row["tolerance"] = told(case.extra["tolerance"](*one), one)
    return row


def made_by(commit: str | None) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    named = asdict(provenance())
    return {
        **named, "commit": commit or named["commit"], "seed": SEED,
        "device": properties.name, "sms": properties.multi_processor_count,
        "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
        "triton": triton.__version__,
    }  # fmt: skip


def finished(file: Path, made: dict[str, Any]) -> list[dict[str, Any]]:
    """Cases that a run on the same device has measured already."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    same = all(found["provenance"].get(name) == made[name] for name in ("device", "torch", "triton"))
    return list(found["cases"]) if same and made["commit"] else []


def main() -> None:
    expect_gpu()
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    commit = sys.argv[2] if len(sys.argv) > 2 else None
    torch.manual_seed(SEED)
    warnings.filterwarnings("ignore", module="attenio.measurement.contenders")  # why a backend refuses: it is recorded
    made, start = made_by(commit), time.monotonic()
    rows = {row["case"]: row for row in finished(folder / "results.json", made)}
    for make in cases():
        case = make()
        if rows.get(case.name, {}).get("commit") == made["commit"] is not None:
            continue
        row = rows[case.name] = {**measured(case), "commit": made["commit"]}
        ratio = "refused" if row["ratio_to_best_peer"] is None else f"{row['ratio_to_best_peer']:.3f}"
        print(f"{time.monotonic() - start:5.0f} s  {row['case']:<60} {ratio}", flush=True)
        text = json.dumps({"provenance": made, "cases": list(rows.values())}, indent=1)
        write_atomically(folder / "results.json", text + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
