"""Is dense attention on Hopper ahead of cuDNN, FlashAttention-2, FlexAttention and JAX, in one run?

    PYTHONPATH=src python studies/hopper/run.py [--part forward] [--into FOLDER] [--commit NAME]

writes results.json: every sample of every contender, GPU time only (replays of CUDA graphs, contenders in turns, random
inputs larger than the cache), the error against float64, and what made it. A run that was cut short goes on where it
stopped. ``answer.py`` turns the results into answer.md.

A part is a function that gives cases; ``PARTS`` lists them.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn.attention import SDPBackend

from attenio import attention
from attenio.files import write_atomically
from attenio.measurement.contenders import backend
from attenio.measurement.provenance import provenance

SEED = 0
# Backward passes take longer, and vary less.
REPEATS = {"forward": 15, "window": 15, "backward": 7, "deterministic": 7}
# So many milliseconds of calls are replayed at once: short kernels are not timed one by one.
REPLAYED_MS = 3.0
LENGTHS = (2048, 4096, 8192, 16384, 32768)
TOKENS, HIDDEN = 16384, 2048
OURS = "attenio"
Inputs = tuple[Tensor, Tensor, Tensor]
Call = Callable[[], Any]


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
    exact: Callable[[Inputs], tuple[slice, Tensor]] | None = None
    # Contenders whose work cannot be captured and takes seconds to compile: measured last, while there is time. They
    # give their own samples, in milliseconds.
    sampled: dict[str, Callable[[], list[float]]] = field(default_factory=dict)


def randoms(*shapes: tuple[int, ...]) -> Inputs:
    return tuple(torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes)  # type: ignore[return-value]


def on(call: Callable[..., Tensor]) -> Callable[[Inputs], Call]:
    """A function of tensors as a contender."""

    def prepared(inputs: Inputs) -> Call:
        def run() -> Tensor:
            with torch.no_grad():
                return call(*inputs)

        return run

    return prepared


def exact_rows(inputs: Inputs, seen: Callable[[Tensor, Tensor], Tensor] | None) -> tuple[slice, Tensor]:
    """The last 64 queries of the first sequence, in float64."""
    q, k, v = inputs
    rows = slice(q.shape[2] - 64, q.shape[2])
    i, j = torch.arange(rows.start, rows.stop, device="cuda")[:, None], torch.arange(k.shape[2], device="cuda")
    out = []
    for head in range(q.shape[1]):
        scores = q[0, head, rows].double() @ k[0, head].double().T * q.shape[-1] ** -0.5
        if seen is not None:
            scores = scores.masked_fill(~seen(i, j), -torch.inf)
        out.append(torch.softmax(scores, -1) @ v[0, head].double())
    return rows, torch.stack(out)


def flex(seen: Callable[[Tensor, Tensor], Tensor] | None, n: int) -> Callable[[Inputs], Call]:
    """FlexAttention, compiled; it skips blocks that the mask hides."""

    def prepared(inputs: Inputs) -> Call:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        blocks = None
        if seen is not None:
            blocks = create_block_mask(lambda _b, _h, i, j: seen(i, j), None, None, n, n, device="cuda")
        compiled = torch.compile(flex_attention, dynamic=False)
        return on(lambda q, k, v: compiled(q, k, v, block_mask=blocks))(inputs)

    return prepared


def jax_samples(d: int, n: int, is_causal: bool) -> dict[str, Callable[[], list[float]]]:
    """JAX's kernel for Hopper, in fp16, which is all it computes in."""

    def samples() -> list[float]:
        from attenio.elements import ElementType
        from attenio.masks import Causal, Dense
        from attenio.measurement.jax_peer import jax_contender
        from attenio.workload import Direction, Workload

        workload = Workload(
            queries=n, keys=n, d=d, heads=HIDDEN // d, kv_heads=HIDDEN // d, batch=max(1, TOKENS // n),
            mask=Causal() if is_causal else Dense(), dtype=ElementType.FP16,
        )  # fmt: skip
        peer = jax_contender(workload)
        if peer is None:
            raise RuntimeError("there is no JAX here that sees a GPU")
        shape = (workload.batch, workload.heads, n, d)
        inputs = tuple(torch.randn(shape, device="cuda").half() for _ in range(3))
        found: list[float] = peer.gpu_samples([peer.forward(inputs)], Direction.FORWARD, repeats=5)
        return found

    return {"jax": samples}


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
        contenders["flex"] = flex(seen, n)
    return Case(
        name=f"forward d={d} {'causal' if is_causal else 'full'} n={n}", part="forward",
        flops=4.0 * batch * heads * n * n * d * (0.5 if is_causal else 1.0),
        about={"d": d, "n": n, "mask": "causal" if is_causal else "full"},
        inputs=lambda: randoms(shape, shape, shape), contenders=contenders,
        exact=lambda inputs: exact_rows(inputs, seen), sampled=jax_samples(d, n, is_causal),
    )  # fmt: skip


def gradients_of(call: Callable[..., Tensor], *, deterministic: bool = False) -> Callable[[Inputs], Call]:
    """The backward pass of a function of tensors as a contender; it runs where its forward pass ran."""

    def prepared(inputs: Inputs) -> Call:
        leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs)
        ran: dict[int, tuple[Tensor, Tensor]] = {}

        def run() -> tuple[Tensor, ...]:
            stream = torch.cuda.current_stream().cuda_stream
            if stream not in ran:
                ran.clear()
                output = call(*leaves)
                ran[stream] = output, torch.randn_like(output)
            output, gradient = ran[stream]
            torch.use_deterministic_algorithms(deterministic)
            torch.utils.deterministic.fill_uninitialized_memory = False  # it would time the filling
            try:
                return torch.autograd.grad(output, leaves, gradient, retain_graph=True)
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
    """Gradients; with ``repeats`` those that repeat to the bit, and ours that need not for comparison."""
    heads, batch = HIDDEN // d, max(1, TOKENS // n)
    shape, mask = (batch, heads, n, d), "causal" if is_causal else "full"
    flash = backend(SDPBackend.FLASH_ATTENTION, is_causal=is_causal)
    ours = gradients_of(lambda q, k, v: attention(q, k, v, is_causal=is_causal, deterministic=repeats))
    if repeats:
        peers = {"flash": gradients_of(flash, deterministic=True)}
    else:
        peers = {"flash": gradients_of(flash)}
        peers["cudnn"] = gradients_of(backend(SDPBackend.CUDNN_ATTENTION, is_causal=is_causal))
    part = "deterministic" if repeats else "backward"
    return Case(
        name=f"{part} d={d} {mask} n={n}", part=part,
        flops=10.0 * batch * heads * n * n * d * (0.5 if is_causal else 1.0),
        about={"d": d, "n": n, "mask": mask}, inputs=lambda: randoms(shape, shape, shape),
        contenders={OURS: ours, **peers}, target=2.0 if repeats else 1.3 if d == 256 else None,
    )  # fmt: skip


def window_case() -> Case:
    n, width, heads, d = 16384, 1024, 16, 128
    shape = (1, heads, n, d)

    def seen(i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (j > i - width)

    return Case(
        name=f"forward d={d} window {width} n={n}", part="window", flops=4.0 * heads * n * width * d, target=1.3,
        about={"d": d, "n": n, "mask": f"window {width}"}, inputs=lambda: randoms(shape, shape, shape),
        contenders={OURS: on(lambda q, k, v: attention(q, k, v, window=width)), "flex": flex(seen, n)},
        exact=lambda inputs: exact_rows(inputs, seen),
    )  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Case]]] = {
    "forward": forward,
    "backward": backward,
    "deterministic": deterministic,
}


def captured(call: Call) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of several calls, after everything was compiled and measured that wants to be."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        call()
        after.record()
    torch.cuda.synchronize()
    count = max(1, min(10, round(REPLAYED_MS / max(1e-3, before.elapsed_time(after)))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            call()
    return graph, count


def samples_in_turns(graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]], *, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of a call: contenders take turns, so that a warm GPU slows all of them alike."""
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for repeat in range(repeats + 1):
        for name, (graph, count) in graphs.items():
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            graph.replay()
            after.record()
            after.synchronize()
            if repeat:
                samples[name].append(before.elapsed_time(after) / count)
    return samples


def measured(case: Case) -> dict[str, Any]:
    inputs = case.inputs()
    found: dict[str, Any] = {}
    graphs, exact = {}, None if case.exact is None else case.exact(inputs)
    calls = []  # a graph holds addresses only: the tensors behind them live as long as the calls do
    for name, prepare in case.contenders.items():
        try:
            call = prepare(inputs)
            calls.append(call)
            output = call()
            graphs[name] = captured(call)
        except (RuntimeError, ValueError) as problem:  # a backend that refuses a shape is no contender
            found[name] = {"refused": str(problem).splitlines()[0][:120]}
            continue
        found[name] = {}
        if exact is not None:
            found[name]["max_abs_error"] = float((output[0, :, exact[0]].double() - exact[1]).abs().max())
        del output
    for name, samples in samples_in_turns(graphs, repeats=REPEATS[case.part]).items():
        found[name]["samples_ms"] = samples
    del graphs, calls
    row = {"case": case.name, "part": case.part, "about": case.about, "target": case.target, "contenders": found}
    return compared(row, case.flops)


def compared(row: dict[str, Any], flops: float) -> dict[str, Any]:
    """A row with medians, rates and the ratio to the fastest peer."""
    for entry in row["contenders"].values():
        if "samples_ms" in entry:
            entry["median_ms"] = statistics.median(entry["samples_ms"])
            entry["tflop_per_s"] = flops / entry["median_ms"] / 1e9
    medians = {name: entry["median_ms"] for name, entry in row["contenders"].items() if "median_ms" in entry}
    ours = medians.pop(OURS, None)
    row["best_peer"] = min(medians, key=medians.__getitem__) if medians else None
    row["ratio_to_best_peer"] = medians[row["best_peer"]] / ours if medians and ours else None
    return row


def sampled(case: Case, row: dict[str, Any]) -> None:
    """Take the samples of contenders that come last."""
    for name, take in case.sampled.items():
        try:
            row["contenders"][name] = {"samples_ms": take()}
        except Exception as problem:  # whatever another library raises, the run goes on
            row["contenders"][name] = {"refused": (str(problem).splitlines() or ["refused"])[0][:120]}
    compared(row, case.flops)


def wake() -> None:
    """Half a second of products: a GPU that has rested is measured at other clocks than one at work."""
    square = torch.randn(8192, 8192, device="cuda").bfloat16()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        square @ square
        torch.cuda.synchronize()


def made_by(commit: str | None) -> dict[str, Any]:
    properties, named = torch.cuda.get_device_properties(0), asdict(provenance())
    return {
        **named, "commit": commit or named["commit"], "seed": SEED,
        "device": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__,
        "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "triton": triton.__version__,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="measure this part only")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="folder of results.json")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    parser.add_argument("--last-seconds", type=float, default=30.0, help="how long contenders that come last may take")
    given = parser.parse_args()
    file, made = given.into / "results.json", made_by(given.commit)
    before = json.loads(file.read_text()) if file.exists() else {}
    kept = before.get("cases", []) if before.get("provenance", {}).get("commit") == made["commit"] else []
    rows = {row["case"]: row for row in kept}
    start = time.monotonic()

    def tell(row: dict[str, Any]) -> None:
        rows[row["case"]] = row
        ratio = "refused" if row["ratio_to_best_peer"] is None else f"{row['ratio_to_best_peer']:.3f}"
        print(f"{time.monotonic() - start:5.0f} s  {row['case']:<36} {ratio} to {row['best_peer']}", flush=True)
        write_atomically(file, json.dumps({"provenance": made, "cases": list(rows.values())}, indent=1) + "\n")
        torch.cuda.empty_cache()

    wake()
    cases = [case for part in given.part or PARTS for case in PARTS[part]()]
    for case in cases:
        if case.name not in rows:
            torch.manual_seed(SEED)
            tell(measured(case))
    last = time.monotonic()
    # The middle length first, so that there is one of each kind if time is short.
    for case in sorted((case for case in cases if case.sampled), key=lambda case: case.about["n"] != 8192):
        if time.monotonic() - last < given.last_seconds and not set(case.sampled) <= set(rows[case.name]["contenders"]):
            sampled(case, rows[case.name])
            tell(rows[case.name])


if __name__ == "__main__":
    main()
