"""answer.md of this study, from its results.

python studies/cpu-attention/answer.py
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent

_TEXT = """# How fast is attention() on a CPU, beside PyTorch and beside the floor?

**Prediction** (before the run). PyTorch's own kernel uses the same library for its products, so where it computes in
single precision on all cores and reads everything once nothing can be gained: fp32 prefill should tie. Gains come from
what it does not do.

- Decode, 8 query heads a KV head: it passes over keys once for each query head; stacked rows pass once. Rows that few
  are the library's worst shape, so 2 to 5 times rather than 8.
- bf16 without bf16 instructions: its products fall back to a scalar loop. Converted a tile at a time: 100 times.
- Backward, one head: it gives a head one thread. Runs of rows, a thread each, are worth as many times as there are
  threads.
- 64 requests behind a prefix: 64 times fewer words, but the products remain: the floor is arithmetic.

**Measured** (`results.json`, made by `run.py`): PyTorch {torch} on {threads} {machine} cores, both in turns in one
process, medians of {repeats} turns, {date}. The machine was shared with other work, so times are long and
ratios are what to read. The floor is the larger of arithmetic at {gflops:.0f} GFLOP/s and reading at {gbytes:.0f} GB/s,
the best rates seen in the same run; "at the floor" is the ratio that a kernel would have which took that long.

| case | floor, ms | ours, ms | SDPA, ms | ratio | at the floor | target |
|---|---:|---:|---:|---:|---:|---|
{rows}

**What it means.** Met: {met}. Missed: {missed}.

- In bf16 PyTorch has no fast product on this processor, so every ratio is large: converting a tile at a time is all
  of the gain.
- In fp32 fused prefill ties because it is PyTorch's own kernel that runs; `kernels/cpu/fused.py` says when.
- One-head backward calls that kernel too, for a run of rows on every thread, and adds up what they give to keys and
  values: five products instead of the seven of two passes.
- Thin products bind fp32 decode: words are saved as planned, but with 8 rows the library packs keys before it
  multiplies, at a fraction of the memory's rate. A compiled kernel for a few rows would lift that; tensor operations do
  not.
- Behind a prefix in fp32 {prefix} is what the floor itself would give with one query head a KV head: SDPA finds a
  request's keys in the cache, and there is no eightfold to be had by moving less.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    cases = results["results"]
    aimed = [case for case in cases if case["target"] > 0]
    counts = [len(case["attenio_ms"]) for case in cases]
    shared = next(case for case in cases if "1 query heads" in case["case"] and "float32" in case["case"])
    return _TEXT.format(
        torch=results["torch"],
        threads=results["threads"],
        machine=results["machine"],
        date=results["provenance"]["date"],
        repeats=f"{min(counts)} to {max(counts)}",
        gflops=max(results["rates"]["flops_per_s"]) / 1e9,
        gbytes=max(results["rates"]["bytes_per_s"]) / 1e9,
        rows="\n".join(_row(case) for case in cases),
        met=_named([case for case in aimed if case["ratio"] >= case["target"]]),
        missed=_named([case for case in aimed if case["ratio"] < case["target"]]),
        prefix=f"{median(shared['sdpa_ms']) / shared['floor_ms']:.1f} times",
    )


def _row(case: dict[str, Any]) -> str:
    ours, theirs = median(case["attenio_ms"]), median(case["sdpa_ms"])
    verdict = (
        "" if case["target"] == 0 else f"{case['target']:g}: {'met' if case['ratio'] >= case['target'] else 'missed'}"
    )
    numbers = (
        f"{case['floor_ms']:.3g} | {ours:.3g} | {theirs:.3g} | {case['ratio']:.2f} | {theirs / case['floor_ms']:.2g}"
    )
    return f"| {_name(case)} | {numbers} | {verdict} |"


def _named(cases: list[dict[str, Any]]) -> str:
    return "; ".join(f"{_name(case)} ({case['ratio']:.2f})" for case in cases) or "none"


def _name(case: dict[str, Any]) -> str:
    name: str = case["case"].replace("torch.", "")
    return name


def main() -> None:
    """Write answer.md beside this file."""
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(results), encoding="utf-8")


if __name__ == "__main__":
    main()
