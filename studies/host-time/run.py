"""How long does Python take for a call of attention on a GPU, beside PyTorch's own?

    PYTHONPATH=src python studies/host-time/run.py [--into FOLDER] [--commit NAME]

times calls that are queued, not waited for, and writes results.json beside this file, or into FOLDER with a profile of
every case. ``answer.py`` turns it into answer.md.
"""

import argparse
import cProfile
import io
import json
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio import attention
from attenio.files import write_atomically
from attenio.kernels.replay import native
from attenio.kernels.replay.repeating import Known, form_options, known_of
from attenio.measurement.provenance import provenance
from attenio.measurement.software import expect_gpu, software_of

SAMPLES = 11
WARM = 10


class Case(NamedTuple):
    """A call, given what computes attention; ``trains`` with its gradients. A sample is so many calls."""

    name: str
    call: Callable[[Callable[..., Tensor]], Any]
    trains: bool = False
    calls: int = 100


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def cases() -> list[Case]:
    """Sizes at which the GPU waits for the host."""
    q, k, v = drawn(1, 32, 1, 128), drawn(1, 8, 1024, 128), drawn(1, 8, 1024, 128)
    cache = drawn(2, 1, 8, 16384, 128)
    rows = drawn(1, 8, 256, 128), drawn(1, 8, 256, 128), drawn(1, 8, 256, 128)
    leaves, gradient = [x.clone().requires_grad_() for x in rows], drawn(1, 8, 256, 128)
    one = rows[0].clone().requires_grad_()
    mask = torch.ones(1, 1, 1, 1024, device="cuda", dtype=torch.bool)
    length = count(4096)

    def grown(compute: Callable[..., Tensor]) -> Tensor:
        keys, values = cache[:, :, :, : next(length)]
        return compute(q, keys, values, enable_gqa=True)

    def trained(compute: Callable[..., Tensor], **options: Any) -> Any:
        return torch.autograd.grad(compute(*leaves, is_causal=True, **options), leaves, gradient)

    def in_order(compute: Callable[..., Tensor]) -> Any:
        return trained(compute, deterministic=True) if compute in (attention, replays) else trained(compute)

    return [
        Case("decode", lambda compute: compute(q, k, v, enable_gqa=True)),
        Case("decode, keys grow by one", grown, calls=5),  # cuDNN plans every length anew, for tens of milliseconds
        Case("decode under a mask", lambda compute: compute(q, k, v, attn_mask=mask, enable_gqa=True)),
        Case("prefill", lambda compute: compute(*rows, is_causal=True)),
        Case("training step", lambda compute: compute(one, one, one, is_causal=True).backward(gradient), True),
        Case("training step, three leaves", trained, True),
        Case("training step, deterministic", in_order, True),
    ]


class Nothing(torch.autograd.Function):
    """What autograd takes by itself for a Function of Python: memory is allocated, nothing is computed."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output)
        return output

    @staticmethod
    def backward(ctx: Any, _gradient: Tensor) -> tuple[Tensor, ...]:
        query, key, value, _output = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class Replays(torch.autograd.Function):
    """The floor: the launches of a known step, by which it is known, and no question whether it is that one."""

    @staticmethod
    def forward(ctx: Any, known: Known, *heads: Tensor) -> Tensor:
        results = known.tape.play(heads, 3, known.stream)
        ctx.save_for_backward(*heads, *results)
        (ctx.after,) = known.after.values()
        output: Tensor = results[0]
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        after = ctx.after
        return None, *after.tape.play((*ctx.saved_tensors, gradient), 3, after.stream)


def replays(*heads: Tensor, is_causal: bool, deterministic: bool = False) -> Tensor:
    """Once ours knows the call."""
    known = _known_steps.get(key := (*map(id, heads), deterministic))
    if known is None:
        known = _known_steps[key] = known_of(heads, form_options(is_causal, None, False, deterministic, None))
    output: Tensor = Replays.apply(known, *heads)
    return output


_known_steps: dict[tuple[Any, ...], Any] = {}


def nothing(query: Tensor, key: Tensor, value: Tensor, **_options: Any) -> Tensor:
    return Nothing.apply(query, key, value)


def microseconds(call: Callable[[], Any], calls: int) -> float:
    """Of one call, queued with others behind which the host does not wait."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def profiled(call: Callable[[], Any], calls: int) -> str:
    profile, text = cProfile.Profile(), io.StringIO()
    profile.enable()
    for _ in range(calls):
        call()
    profile.disable()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(60)
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="folder of results.json and of profiles")
    parser.add_argument("--commit", help="name of the commit, where there is no checkout")
    given = parser.parse_args()
    expect_gpu()
    print(f"replay in C: {native.why_not() or 'yes'}")
    folder = given.into or Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    made = asdict(provenance())
    made["commit"] = given.commit or made["commit"]
    found = []
    for case in cases():
        ways = {"SDPA": torch.nn.functional.scaled_dot_product_attention, "ours": attention}
        if case.trains:
            ways |= {"floor": replays, "nothing": nothing}
        samples: dict[str, list[float]] = {name: [] for name in ways}
        with torch.set_grad_enabled(case.trains):
            for compute in ways.values():
                for _ in range(WARM):
                    case.call(compute)
            for _ in range(SAMPLES):
                for name, compute in ways.items():
                    samples[name].append(microseconds(partial(case.call, compute), case.calls))
            if given.into:
                text = profiled(partial(case.call, attention), case.calls)
                (folder / f"{case.name.replace(', ', '-').replace(' ', '-')}.txt").write_text(text, encoding="utf-8")
        medians = {name: statistics.median(each) for name, each in samples.items()}
        print(f"{case.name:34}" + "".join(f" {name} {each:7.1f}" for name, each in medians.items()), flush=True)
        found.append({"case": case.name, "microseconds": samples})
    text = json.dumps({"cases": found, "provenance": {**made, **software_of("cuda")}}, indent=1)
    write_atomically(folder / "results.json", text + "\n")


if __name__ == "__main__":
    main()
