"""answer.md of this study, from its results.

python studies/flash-attention-cases/answer.py
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHOWN = 30

_TEXT = """# Do FlashAttention's own test cases hold for attention()?

FlashAttention tests its kernels on a grid of shapes, widths, groups, masks and options
(`tests/cute/test_flash_attn.py` of its repository, commit {theirs}). The same grid, as cases and not as code, goes
through `attention()` here: bf16, 6 heads with 6, 3 or 1 of keys, causality and windows at the bottom right. A case
holds where every largest error, of the output and of each gradient, is at most twice that of an untiled computation in
bf16, both against one in fp32, plus what their test allows: twice the rounding that adding and taking away 0.3 leaves.
Windows that end before the query, and lengths of a cache, are given as a mask.

**Prediction** (before the run). All cases that are supported hold: the same is held of other shapes in `tests/on_gpu`.

**Measured** (`results.json`, made by `run.py`): {device}, PyTorch {torch}, Triton {triton}, commit {commit}.

| test | their cases | not supported | like others | not run | run | hold | fail |
|---|---:|---:|---:|---:|---:|---:|---:|
{rows}

Not supported: {reasons}.

*Like others*: of packed sequences every shape has every width and mask once, and groups, lengths and empty sequences
take turns. Their latent attention (a second product with the values), gradients of the logarithm of the sums, fp8, and
what they refuse are no part of this grid.

**What it means.** {held:,} of {run:,} cases hold{beside}. Without any allowance, {strict:,} of {compared:,} outputs and
gradients are within twice the untiled error. The worst error is {worst:.0%} of what is allowed, the median
{median:.0%}.
{failures}"""

_ZERO = """, {zero:,} of them where the right gradient is exactly 0, because every query sees one key: the mean that
is taken from dP there comes from the output as it was stored, and leaves a rounding"""


def answer(results: dict[str, Any]) -> str:
    """The text of answer.md."""
    made = results["provenance"][-1]
    cases = results["cases"]
    bad = {name: said for name, row in cases.items() if (said := failure(row)) is not None}
    errors = [error for row in cases.values() for error in row.get("errors", {}).values()]
    shares = sorted(ours / most for ours, untiled, allowed in errors if (most := 2 * untiled + allowed) > 0)
    left = results["left_out"]
    commits = dict.fromkeys(str(each["commit"]) for each in results["provenance"])
    beside = f"; {left['for_time']:,} were left out for time, {left['essential']:,} of them essential"
    return _TEXT.format(
        theirs=results["flash_attention_commit"], device=made["device_name"], torch=made["torch"],
        triton=made["triton"], commit=", ".join(commits), rows="\n".join(_rows(results, bad)),
        reasons=_reasons(results), held=len(cases) - len(bad), run=len(cases), compared=len(errors),
        strict=sum(ours <= 2 * untiled for ours, untiled, _ in errors), worst=shares[-1],
        median=shares[len(shares) // 2], failures=_failures(bad), beside=beside if left["for_time"] else "",
    )  # fmt: skip


def failure(row: dict[str, Any]) -> str | None:
    """Why a case does not hold; None where it does."""
    if "raised" in row:
        return str(row["raised"])
    over = [
        f"{name} off by {ours:.1e}, untiled {untiled:.1e}"
        for name, (ours, untiled, allowed) in row["errors"].items()
        if not ours <= 2 * untiled + allowed
    ]
    return ", ".join(over) or None


def _rows(results: dict[str, Any], bad: dict[str, str]) -> list[str]:
    found = []
    for test, total in results["totals"].items():
        run = [name for name, row in results["cases"].items() if row["test"] == test]
        refused = sum(count for reason, count in total.items() if reason not in ("cases", "alike"))
        alike, failed = total.get("alike", 0), sum(name in bad for name in run)
        left = total["cases"] - refused - alike - len(run)
        numbers = (total["cases"], refused, alike, left, len(run), len(run) - failed, failed)
        found.append(f"| {test} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    return found


def _reasons(results: dict[str, Any]) -> str:
    counts: dict[str, int] = {}
    for total in results["totals"].values():
        for reason, count in total.items():
            if reason not in ("cases", "alike"):
                counts[reason] = counts.get(reason, 0) + count
    return ",\n".join(f"{reason} {count:,}" for reason, count in counts.items())


def _failures(bad: dict[str, str]) -> str:
    if not bad:
        return ""
    rows = "\n".join(f"| {name} | {said.replace('|', '/')} |" for name, said in list(bad.items())[:SHOWN])
    rest = f"\n\nand {len(bad) - SHOWN:,} more, in `results.json`." if len(bad) > SHOWN else ""
    zero = sum(all(part.endswith("untiled 0.0e+00") for part in said.split(", d")) for said in bad.values())
    return f"\nThese do not hold{_ZERO.format(zero=zero) if zero else ''}:\n\n| case | why |\n|---|---|\n{rows}{rest}\n"


if __name__ == "__main__":
    made = answer(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    (HERE / "answer.md").write_text(made, encoding="utf-8")
