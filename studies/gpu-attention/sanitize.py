"""Do the GPU kernels touch only their own, initialised memory, and never race? NVIDIA's compute-sanitizer says.

    PYTHONPATH=src python studies/gpu-attention/sanitize.py [memcheck initcheck racecheck] [--seconds 600]

runs every kernel on small ragged shapes: first by itself, under PyTorch's profiler, which tells whether a kernel of the
package was left out, then under each tool. Prints what each tool found; the exit status is 0 where that is nothing and
no kernel is missing. ``sanitize.py run`` runs the cases alone.

What the tools cannot see. The copy engine of Hopper writes memory without any thread: initcheck takes what it wrote for
uninitialised, so it is given the portable kernels only. racecheck sees neither its writes to shared memory nor the
reads of matrix instructions, only ordinary loads and stores; and it takes the hand-over to groups of warps that Triton
puts into a specialised kernel (what they are to run and with which arguments, ordered by named barriers) for races:
reports of which both ends are there are counted apart. Not so where one end makes a barrier: Triton hands over in the
memory of a barrier that nobody waits for, and such a kernel was seen to hang beside other processes. Nor does it follow
barriers that one warpgroup arrives at and another waits for: P and the factors of latents, which the warpgroups hand
each other so, are reported, in Gluon (``p_full``, ``p_free``) and in CUDA C++ (``tell``, ``listen``).
"""

import argparse
import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TOOLS = ("memcheck", "initcheck", "racecheck")
# Every tensor has its own allocation, so that a step past its end is seen.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
Case = tuple[str, Callable[[], object]]
# Where Triton's own hand-over is reported: at the head of a kernel, and where it splits.
HAND_OVER = ("def ", "gl.warp_specialize(")


def cases() -> Iterator[Case]:
    """Calls that together launch every kernel, at lengths that are multiples of nothing."""
    import torch

    yield from training_cases()
    with torch.no_grad():
        yield from decode_cases()
        yield from latent_cases()
        yield from page_cases()
        yield from large_cases()
        yield from portable_cases()


def training_cases() -> Iterator[Case]:
    """Forward and backward: on Hopper in Gluon at every width, and in portable Triton under a bias and in fp32."""
    import torch

    from attenio import attention

    def both(
        sizes: tuple[int, int, int, int], d: int, *, dtype: torch.dtype = torch.bfloat16, **options: object
    ) -> None:
        heads, kv_heads, queries, keys = sizes
        shapes = ((1, heads, queries, d), (1, kv_heads, keys, d), (1, kv_heads, keys, d))
        q, k, v = (torch.randn(shape, device="cuda").to(dtype).requires_grad_() for shape in shapes)
        attention(q, k, v, enable_gqa=heads != kv_heads, **options).square().sum().backward()  # type: ignore[arg-type]

    for d in (64, 128, 256):
        yield f"dense, d={d}", lambda d=d: both((2, 2, 197, 333), d)
        yield f"causal, d={d}, same bits", lambda d=d: both((2, 1, 150, 150), d, is_causal=True, deterministic=True)
    yield "in clusters, d=184", lambda: both((2, 2, 300, 333), 184)
    yield "window, d=96", lambda: both((4, 2, 150, 150), 96, window=40)
    packed = torch.tensor([0, 60, 150], device="cuda")
    yield "packed sequences, d=192", lambda: both((1, 1, 150, 150), 192, cu_seqlens=packed)
    bias = torch.randn(1, 1, 150, 150, device="cuda", dtype=torch.bfloat16)
    yield "portable, bias", lambda: both((1, 1, 150, 150), 64, attn_mask=bias)
    yield "portable, causal, d=80, fp32", lambda: both((2, 1, 150, 150), 80, dtype=torch.float32, is_causal=True)
    yield "fp32 in parts, causal, d=128", lambda: both((2, 1, 600, 600), 128, dtype=torch.float32, is_causal=True)


def decode_cases() -> Iterator[Case]:
    """One query: by the kernel for Hopper in 16 bits, by the portable one in fp32."""
    import torch

    from attenio import attention

    for dtype in (torch.bfloat16, torch.float32):
        q, k, v = (torch.randn(2, *size, 64, device="cuda").to(dtype) for size in ((8, 1), (2, 1021), (2, 1021)))
        step = {"query": q, "key": k, "value": v, "enable_gqa": True}
        mask = torch.rand(2, 1, 1, 1021, device="cuda") > 0.5
        kind = "portable, " if dtype == torch.float32 else ""
        yield f"{kind}decode", lambda step=step: attention(**step)
        yield f"{kind}decode under a mask", lambda step=step, mask=mask: attention(**step, attn_mask=mask)
        yield f"{kind}decode behind a prefix", lambda step=step: attention(**step, prefix=512)


def latent_cases() -> Iterator[Case]:
    """Keys whose first columns are the values: in CUDA C++, and with sinks in Gluon; runs are joined."""
    import torch

    from attenio import attention

    q, k = (torch.randn(1, heads, size, 576, device="cuda").bfloat16() for heads, size in ((70, 1), (1, 1021)))
    sinks = torch.randn(70, device="cuda")
    for name, options in (("latents", {}), ("latents with sinks", {"sinks": sinks})):
        yield name, lambda options=options: attention(q, k, k[..., :512], enable_gqa=True, **options)


def page_cases() -> Iterator[Case]:
    """Keys in shuffled pages: one new token by the kernel for Hopper and by the portable one (capped), and a plan of
    runs that requests share, by both."""
    import torch

    from attenio import attention
    from attenio.kernels import PageTable

    k, v = (torch.randn(40, 64, 2, 128, device="cuda").bfloat16() for _ in range(2))
    q = torch.randn(2, 8, 1, 128, device="cuda").bfloat16()
    order = torch.randperm(40).int()
    table, lengths = torch.stack((order[:18], torch.cat((order[:10], order[18:26])))), torch.tensor([1100, 1021]).int()
    shared = PageTable.of(table, lengths)
    for name, options in (("pages", {}), ("portable, pages", {"softcap": 2.0})):
        gpu = {"pages": table.cuda(), "lengths": lengths.cuda(), **options}
        yield name, lambda gpu=gpu: attention(q, k, v, **gpu)
        yield f"{name} that are shared", lambda options=options: attention(q, k, v, pages=shared, **options)


def large_cases() -> Iterator[Case]:
    """What only large problems run: twice the rows of a consumer, and gradients in several chunks."""
    import torch

    from attenio.kernels import triton as portable
    from attenio.kernels.call.results import Attended
    from attenio.kernels.hopper import launch_plans
    from attenio.kernels.hopper.backward.spilled_gradients import spilled_gradients
    from attenio.kernels.hopper.tiles import WIDE_TILES

    def wide() -> None:
        asked = problem_of(128, 320)
        found = (torch.empty_like(asked.query), *(torch.empty(asked.query.shape[:-1], device="cuda") for _ in range(2)))
        launch_plans.run(asked, Attended(*found), WIDE_TILES)

    def carried() -> None:
        asked = problem_of(256, 320)
        spilled_gradients(asked, (*portable.attend(asked), asked.query), workspace_bytes=1)

    yield "twice the rows", wide
    yield "gradients carried from chunk to chunk, d=256", carried


def portable_cases() -> Iterator[Case]:
    """The portable kernels, which Hopper GPUs run for some calls only; the bias and fp32 above are among them too."""
    from attenio.kernels import triton as portable
    from attenio.kernels.triton.feature_state import polynomial_sums
    from attenio.kernels.triton.sizes import sizes_of

    def both(d: int, above: int | None) -> None:
        asked = problem_of(d, 333, above)
        portable.gradients(asked, (*portable.attend(asked), asked.query))

    for d in (64, 128):
        yield f"portable, d={d}", lambda d=d: both(d, None)
        yield f"portable, causal, d={d}", lambda d=d: both(d, 33)
    yield "portable, sizes of the data", lambda: sizes_of(problem_of(64, 300))
    for causal in (False, True):
        yield (
            f"portable, polynomial, causal={causal}",
            lambda causal=causal: polynomial_sums(problem_of(64, 300), (1.0, 1.0, 0.5), None, causal=causal),
        )


def problem_of(d: int, keys: int, above: int | None = None) -> Any:
    """Two heads of 300 queries, which see keys up to ``above`` from their own."""
    import torch

    from attenio.kernels.call.problem import KernelProblem
    from attenio.kernels.call.visibility import UNBOUNDED, Visibility

    q, k, v = (torch.randn(1, 2, rows, d, device="cuda").bfloat16() for rows in (300, keys, keys))
    seen = Visibility(group=1, above=UNBOUNDED if above is None else above)
    return KernelProblem.of_heads(q, k, v, seen, d**-0.5)


def run_cases(only: list[str]) -> None:
    """What the tools watch: all cases, or those with these numbers or beginnings of their names."""
    import torch

    from attenio.kernels.replay import set_stand_ins

    set_stand_ins(False)  # every kernel that is chosen is to run
    torch.manual_seed(0)
    for number, (name, call) in enumerate(cases()):
        if not only or str(number) in only or any(name.startswith(each) for each in only):
            call()
            torch.cuda.synchronize()
            print(f"done: {name}", flush=True)


def all_kernels() -> set[str]:
    """The names of the package's kernels, those for Hopper only where there is one."""
    import torch
    from triton.runtime.jit import JITFunction

    found = set()
    for name in ("triton", "hopper") if torch.cuda.get_device_capability() == (9, 0) else ("triton",):
        package = importlib.import_module(f"attenio.kernels.{name}")
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(each.name)
            found |= {key for key, value in vars(module).items() if isinstance(value, JITFunction) and "_kernel" in key}
    return found


def report_missing() -> None:
    """Run the cases under the profiler, and print the kernels that none of them launches."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        run_cases([])
    ours, launched = all_kernels(), {event.key for event in watched.key_averages()}
    print(f"{len(ours & launched)} kernels ran; missing: {' '.join(sorted(ours - launched)) or 'none'}")


def watched_by(tool: str, seconds: float) -> bool:
    """Whether a tool has nothing to say about any case that it can judge; what it said is printed."""
    only = ["portable"] if tool == "initcheck" else []
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "1000", sys.executable, __file__, "run", *only]
    done = subprocess.run(
        ["timeout", str(seconds), *command], env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    found, handed = found_in(done.stdout)
    ended = done.returncode == 0 and found is not None
    apart = f", {handed} more in Triton's hand-over to warpgroups" if handed else ""
    told = f"{done.stdout.count('done: ')} cases{'' if ended else ', cut short'}; {found} found{apart}"
    print(f"{tool}: {told}", flush=True)
    if found:
        print("".join(unexplained_races(done.stdout)) or done.stdout[-3000:])
    elif not ended:
        print(done.stdout[-3000:])
    return ended and not found


def found_in(text: str) -> tuple[int | None, int]:
    """What a tool found, None if it came to no end; and races in Triton's hand-over, which are not among it."""
    errors = re.search(r"ERROR SUMMARY: (\d+) error", text)
    if errors is not None:
        return int(errors[1]), 0
    races = races_in(text)
    handed = sum(map(is_hand_over, races))
    return (len(races) - handed if "RACECHECK SUMMARY" in text else None), handed


def races_in(text: str) -> list[str]:
    """What racecheck said of each race."""
    parts = re.split(r"(?m)^=+ (?=Error: Race|RACECHECK)", text)
    return [part for part in parts if part.startswith("Error: Race")]


def unexplained_races(text: str) -> list[str]:
    """Those that are not in Triton's hand-over, with the case that ended after each."""
    return [race for race in races_in(text) if not is_hand_over(race)]


def is_hand_over(race: str) -> bool:
    """Whether every access of a race is where Triton hands over to warpgroups."""
    package = Path(importlib.util.find_spec("attenio.kernels.hopper").submodule_search_locations[0])  # type: ignore
    lines = []
    for file, line in re.findall(r"access at .* in (\S+\.py):(\d+)", race):
        # Of files of the same name each could be the one: a place is a hand-over only if it is one in all of them that
        # Triton compiles.
        texts = (found.read_text() for found in package.rglob(file))
        for text in [each.splitlines() for each in texts if ".jit" in each] or [[]]:
            lines.append([each.strip() for each in text[int(line) - 1 : int(line) + 1]])
    # Where a kernel splits in two ways, the place is that of the condition, a line before.
    return bool(lines) and all(any(line.startswith(HAND_OVER) for line in place) for place in lines)


def main() -> int:
    """Run the cases, then every tool that was asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tools", nargs="*", help=f"of {', '.join(TOOLS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long a tool may take")
    asked = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not on this machine; it comes with the CUDA toolkit", file=sys.stderr)
        return 2
    first = subprocess.run([sys.executable, __file__, "kernels"], stdout=subprocess.PIPE, text=True, check=False)
    print(first.stdout.strip().splitlines()[-1] if first.stdout else "no case ran", flush=True)
    with ThreadPoolExecutor(max_workers=len(TOOLS)) as pool:
        clean = list(pool.map(lambda tool: watched_by(tool, asked.seconds), asked.tools or TOOLS))
    return 0 if all(clean) and first.returncode == 0 and "missing: none" in first.stdout else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", *numbers]:
            run_cases(numbers)
        case ["kernels"]:
            report_missing()
        case _:
            sys.exit(main())
