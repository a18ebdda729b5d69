"""answer.md of this study, from its results.

python studies/cpu-attention/answer.py
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent

_TEXT = """# How fast is attention() on a CPU, beside PyTorch and beside the floor?

**Prediction** (written before the first run, and kept). Two cores multiply at 33 GFLOP/s each in single precision and
read about 14 GB/s together. PyTorch's own kernel uses the same products, so where it computes in single precision on
all cores and reads everything once nothing can be gained: fp32 prefill should tie. Gains come from what it does not do.

- Decode, 8 query heads a KV head: it reads keys once for each query head (a product with one row), eight times 134 MB;
  stacked rows read them once. With 8 rows a product passes over keys at 5 GB/s a core: 2 to 5 times faster, depending
  on whether the cache serves the seven repetitions.
- bf16 without bf16 instructions: its products fall back to a scalar loop. Converted a tile at a time: 100 times.
- Backward, one head: it gives a head one thread. Two threads, but seven products instead of five: 2 · 5/7 = 1.4 times
  one good thread.
- 64 requests behind a prefix: 64 times fewer words, but the products remain; with one head they take 268 MFLOP a KV
  head (4 ms) against 537 MB of reading (38 ms at 14 GB/s, less if a cache holds the request): up to 8 times.

**Measured** (`results.json`, made by `run.py`): PyTorch {torch} on {threads} {machine} cores, all contenders in turns
in one process, {pinned}medians of {repeats} turns, {date}. The floor is the larger of arithmetic at
{gflops:.0f} GFLOP/s and reading at {gbytes:.0f} GB/s, the best rates seen between the cases of the same run; "at most"
is the ratio that a call at the floor would have. "Without llvmlite" is what `attenio[torch]` alone gives where
`attenio[cpu]` compiles a kernel.

| case | floor, ms | ours, ms | without llvmlite, ms | SDPA, ms | ratio | at most | target |
|---|---:|---:|---:|---:|---:|---:|---|
{rows}

**What it means.** Met: {met}. Missed: {missed}.

- In bf16 PyTorch has no fast product on this processor, so every ratio is large: widening a tile at a time is all of
  the gain.
- In fp32 fused prefill ties because it is PyTorch's own kernel that runs; `kernels/cpu/fused.py` says when.
- One-head backward was changed after a first run that missed: where there are fewer heads than threads, PyTorch's
  kernel is called for a run of rows on every thread, and what they give to keys and values is added up. That makes
  five products instead of the predicted seven, and the prediction was too low. SDPA cuts the head's small products over
  all threads, which wait for each other after each: on one thread alone it needs as much processor time as ours, so
  two cores that do nothing else can give no more than twice, and the rest is what that waiting costs beside other work.
- Decode in fp32 was bound by thin products: the library copies keys and values into an order of its own before it
  multiplies, and with 8 rows runs at 23 of 37 GFLOP/s a core from the cache and at 18 to 20 from memory, so that its
  products alone took the third of SDPA's time that was allowed. The kernel that `attenio[cpu]` compiles reads them as
  they lie (`kernels/cpu/few_rows.py`). The gain grows with the width: at d=64 SDPA finds its keys in the cache, and the
  exponentials weigh more.
- Behind a prefix in fp32 the words are saved, but all of the products remain, and SDPA reads its copies of the prefix
  so fast ({reading:.0f} GB/s) that a call at the floor would be {at_most:.1f} times as fast. Of that {reached:.0f} % is
  reached. More query heads a KV head leave less to gain, because SDPA finds keys in the cache again; so does a prefix
  stored once (no copies), which stays in SDPA's cache.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    cases = results["results"]
    aimed = [case for case in cases if case["target"] > 0]
    counts = [len(case["attenio_ms"]) for case in cases]
    behind = next(case for case in aimed if "shared" in case["case"] and "fp32" in case["case"])
    at_most = median(behind["sdpa_ms"]) / behind["floor_ms"]
    return _TEXT.format(
        torch=results["torch"],
        threads=results["threads"],
        machine=results["machine"],
        date=results["provenance"]["date"],
        pinned="one thread to a core, " if results["one_thread_to_a_core"] else "",
        repeats=f"{min(counts)} to {max(counts)}",
        gflops=max(results["rates"]["flops_per_s"]) / 1e9,
        gbytes=max(results["rates"]["bytes_per_s"]) / 1e9,
        rows="\n".join(_row(case) for case in cases),
        met=_named([case for case in aimed if case["ratio"] >= case["target"]]),
        missed=_named([case for case in aimed if case["ratio"] < case["target"]]),
        reading=2 * 64 * (8192 + 64) * 128 * 4 / median(behind["sdpa_ms"]) / 1e6,
        at_most=at_most,
        reached=100 * behind["ratio"] / at_most,
    )


def _row(case: dict[str, Any]) -> str:
    ours, theirs, floor = median(case["attenio_ms"]), median(case["sdpa_ms"]), case["floor_ms"]
    verdict = (
        "" if case["target"] == 0 else f"{case['target']:g}: {'met' if case['ratio'] >= case['target'] else 'missed'}"
    )
    library = f"{median(case['without_llvmlite_ms']):.1f}" if "without_llvmlite_ms" in case else ""
    numbers = f"{floor:.1f} | {ours:.1f} | {library} | {theirs:.1f} | {case['ratio']:.2f} | {theirs / floor:.1f}"
    return f"| {case['case']} | {numbers} | {verdict} |"


def _named(cases: list[dict[str, Any]]) -> str:
    return "; ".join(f"{case['case']} ({case['ratio']:.2f})" for case in cases) or "none"


def main() -> None:
    """Write answer.md beside this file."""
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(results), encoding="utf-8")


if __name__ == "__main__":
    main()
