"""The part of answer.md that is about keys in pages, from the results; nothing where they have not been measured."""

from typing import Any

_TEXT = """
## What do keys in pages cost?

**By words**: nothing but the table, which is a 32-bit number a page. Pages that requests share are read once for the
rows of all of them, and pages of 8 bits are half as many bytes.

**Measured** (`run.py --only paged`): {device}, PyTorch {torch}, Triton {triton}, commit {commit}, {date}, 32/8 heads,
d=128, bf16 queries, one new token each, pages in random order, medians of {repeats} samples in turns of every order.
The error is that of the first request against float64, norms.

| case | contender | ms | GB/s | over it | error |
|---|---|---:|---:|---:|---:|
{rows}

"Over it" is the time of contiguous keys, or of pages that every request reads by itself, over that of the contender.

{lines}
"""


def section(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    if "paged" not in results:
        return ""
    cases, made = results["paged"]["cases"], results["paged"]["provenance"]
    rows, lines = [], []
    for case in cases:
        found = {name: each for name, each in case["contenders"].items() if "median_ms" in each}
        base = "contiguous" if "contiguous" in found else "pages by request"
        for name, each in case["contenders"].items():
            if "median_ms" not in each:
                rows.append(f"| {case['case']} | {name} | refused | | | |")
                continue
            rate = f"{each['gb_per_s']:.0f}" if "gb_per_s" in each else ""
            over = f"{found[base]['median_ms'] / each['median_ms']:.2f}" if base in found else ""
            rows.append(
                f"| {case['case']} | {name} | {each['median_ms']:.3f} | {rate} | {over} |"
                f" {each['relative_error']:.1e} |"
            )
        lines += _told(case["case"], {name: each["median_ms"] for name, each in found.items()})
    samples = next(each["samples_ms"] for each in cases[0]["contenders"].values() if "samples_ms" in each)
    return _TEXT.format(
        **{name: made[name] for name in ("device", "torch", "triton", "commit", "date")}, repeats=len(samples),
        rows="\n".join(rows), lines="\n".join(lines),
    )  # fmt: skip


def _told(case: str, ms: dict[str, float]) -> list[str]:
    """What was to be shown, and what was found."""
    told = []
    for size, least in ((64, 0.95), (16, 0.85)):
        if "contiguous" in ms and f"pages of {size}" in ms:
            share = ms["contiguous"] / ms[f"pages of {size}"]
            word = "reached" if share >= least else "not reached"
            told.append(f"- {case}: pages of {size} run at {share:.2f} of contiguous keys ({least} is {word}).")
    if "fp8 pages of 64" in ms and "pages of 64" in ms:
        share = ms["pages of 64"] / ms["fp8 pages of 64"]
        told.append(f"- {case}: fp8 is {share:.2f} times as fast as bf16 in pages of 64 (wanted at 64 x 8192: 1.7).")
    if "read once" in ms:
        for other in ("pages by request", "contiguous by request"):
            if other in ms:
                told.append(
                    f"- {case}: shared pages read once are {ms[other] / ms['read once']:.1f} times as fast as"
                    f" {other} (wanted: 10)."
                )
    return told
