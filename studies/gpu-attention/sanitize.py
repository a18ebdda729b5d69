"""Do the Triton kernels touch only their own, initialised memory, and never race? NVIDIA's compute-sanitizer says.

    PYTHONPATH=src python studies/gpu-attention/sanitize.py [memcheck initcheck racecheck]

runs every kernel on small ragged shapes under each tool, side by side, and prints what each tool counted. The exit
status is 0 where no tool has anything to say. ``sanitize.py run`` runs the kernels alone, which compiles them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

TOOLS = ("memcheck", "initcheck", "racecheck")
# Every tensor has its own allocation, so that a step past its end is seen.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls that together launch every kernel, at lengths that are multiples of nothing."""
    import torch

    from attenio import attention

    def inputs(batch: int, heads: int, kv_heads: int, queries: int, keys: int, d: int) -> list[torch.Tensor]:
        shapes = ((heads, queries), (kv_heads, keys), (kv_heads, keys))
        made = (torch.randn(batch, count, rows, d, device="cuda") for count, rows in shapes)
        return [each.bfloat16().requires_grad_() for each in made]

    def both(batch: int, heads: int, kv_heads: int, queries: int, keys: int, d: int, **options: object) -> None:
        q, k, v = inputs(batch, heads, kv_heads, queries, keys, d)
        attention(q, k, v, enable_gqa=heads != kv_heads, **options).sum().backward()  # type: ignore[arg-type]

    bias = torch.randn(1, 1, 150, 150, device="cuda", dtype=torch.bfloat16)
    yield "dense", lambda: both(1, 2, 2, 197, 333, 64)
    yield "causal, d=80", lambda: both(1, 1, 1, 150, 150, 80, is_causal=True)
    yield "window, grouped heads", lambda: both(1, 4, 2, 150, 150, 64, window=40)
    yield "bias", lambda: both(1, 1, 1, 150, 150, 64, attn_mask=bias)
    yield "segments", lambda: both(1, 1, 1, 150, 150, 64, segments=torch.tensor([0, 60, 150], device="cuda"))
    with torch.no_grad():
        step = [each.detach() for each in inputs(2, 8, 2, 1, 1021, 64)]
        yield "decode", lambda: attention(*step, enable_gqa=True)
        yield "decode behind a prefix", lambda: attention(*step, enable_gqa=True, prefix=512)


def run_cases(only: Sequence[str]) -> None:
    """What the tools watch: all cases, or those with these numbers."""
    import torch

    torch.manual_seed(0)
    for number, (name, call) in enumerate(cases()):
        if not only or str(number) in only:
            call()
            torch.cuda.synchronize()
            print(f"done: {name}", flush=True)


def main() -> int:
    """Start every tool, wait for all, and print a line for each."""
    found = shutil.which("compute-sanitizer")
    if found is None:
        print("compute-sanitizer is not on this machine; it comes with the CUDA toolkit", file=sys.stderr)
        return 2
    environment = {**os.environ, **ENVIRONMENT}
    started = {
        tool: subprocess.Popen(
            [found, "--tool", tool, "--print-limit", "20", sys.executable, __file__, "run"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for tool in sys.argv[1:] or TOOLS
    }  # fmt: skip
    clean = True
    for tool, process in started.items():
        text, _ = process.communicate()
        summary = re.findall(r"=+ ((?:ERROR|RACECHECK) SUMMARY.*)", text)
        finished = text.count("done: ")
        clean &= process.returncode == 0 and bool(summary) and all(" 0 " in line for line in summary)
        print(f"{tool}: {finished} cases, {'; '.join(summary) or 'no summary'}", flush=True)
        if process.returncode or not summary:
            print(text[-3000:])
    return 0 if clean else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run_cases(sys.argv[2:])
    else:
        sys.exit(main())
