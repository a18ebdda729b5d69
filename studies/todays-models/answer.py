"""answer.md of this study, from its results.

python studies/todays-models/answer.py
"""

import json
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from typing import Any

import pages_answer

HERE = Path(__file__).parent
_TEXT = """# What do sinks and caps on scores cost on Hopper?

**By what kernels do**: a sink is one more number in the state that a row begins with, or one more term in what is
joined at the end. No tile of scores has more to do, so it should cost next to nothing. A cap takes a tanh for every
score beside the exponential, on the same units: at 64 columns, where exponentials take as long as products, it should
cost half as much again.

**Measured** (`results.json`, made by `run.py`): {device}, PyTorch {torch}, Triton {triton}, FlashAttention-4 {peer},
bf16, causal, GPU time by replays of CUDA graphs, contenders in turns of every order, medians of {repeats} samples,
{date}. Ratios are the other's time over ours. Rows are of commits {commits}. Backward passes, and caps of
8 x 64/8 x 1024 x 64, are in `run.py` and have not been measured yet.

| case | ours, TFLOP/s | without, over with | FlashAttention-4 over ours | FlexAttention over ours | our error |
|---|---:|---:|---:|---:|---:|
{rows}

- **Sinks** cost {sinks:+.1f} % in the geometric mean over the sizes, at most {worst:+.1f} %. Beside FlashAttention-4
  with sinks the ratio is {sinks_peer:.2f} in the mean. Rows of 64 columns without sinks are older than the forward
  kernel in CUDA C++.
- **A cap** takes {cap:.2f} times as long as none, and {cap_peer:.2f} of FlashAttention-4's rate is reached, over
  {caps} cases.
- FlexAttention is compiled for the first two sizes only, which takes ten seconds a form.
"""


def mean(values: Iterable[float]) -> float:
    every = [log(value) for value in values]
    return exp(sum(every) / len(every))


def ratio(row: dict[str, Any], other: str) -> float | None:
    there = row["contenders"].get(other, {})
    return there["median_ms"] / row["contenders"]["attenio"]["median_ms"] if "median_ms" in there else None


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    cases, made = results["cases"], results["provenance"]
    by_form = {
        form: [row for row in cases if row["form"] == form] for form in ("plain", "sinks", "cap", "sinks and cap")
    }
    ours = {form: [row["contenders"]["attenio"] for row in rows] for form, rows in by_form.items()}
    costs = [1.0 / (ratio(row, "attenio, plain") or 1.0) for row in by_form["sinks"]]
    peers = {form: mean(x for row in rows if (x := ratio(row, "FlashAttention-4"))) for form, rows in by_form.items()}
    capped = [*by_form["cap"], *by_form["sinks and cap"]]
    rows = [
        f"| {row['case']} | {row['contenders']['attenio']['tflop_per_s']:.0f} | "
        + " | ".join(f"{x:.2f}" if (x := ratio(row, name)) else "" for name in ("attenio, plain", *PEERS))
        + f" | {row['contenders']['attenio']['relative_error']:.4f} |"
        for row in cases
    ]
    text = _TEXT.format(
        device=made["device"], torch=made["torch"], triton=made["triton"], peer=made["flash_attn_4"], date=made["date"],
        repeats=len(ours["plain"][0]["samples_ms"]), rows="\n".join(rows), sinks=100 * (mean(costs) - 1),
        worst=100 * (max(costs) - 1), sinks_peer=peers["sinks"],
        cap=mean(1.0 / (ratio(row, "attenio, plain") or 1.0) for row in capped),
        cap_peer=mean(x for row in capped if (x := ratio(row, "FlashAttention-4"))), caps=len(capped),
        commits=" and ".join(sorted({row["commit"] for row in cases})),
    )  # fmt: skip
    return text + pages_answer.section(results) + latents_section(results)


def latents_section(results: dict[str, Any]) -> str:
    """Decode of latents, a line for each size."""
    if "latents" not in results:
        return ""
    lines = []
    for row in results["latents"]["cases"]:
        once = row["contenders"]["read once"]
        numbers = f"{1e3 * once['median_ms']:.0f} | {once['tflop_per_s']:.0f} | {once['latent_gb_per_s']:,.0f}"
        other = f" (commit {row['commit']})" if "commit" in row else ""
        lines.append(f"| {row['case']}{other} | {numbers} | {once['relative_error']:.4f} |")
    return _LATENTS.format(commit=results["latents"]["provenance"]["commit"], rows="\n".join(lines))


_LATENTS = """
## Latents

Keys 576 wide whose first 512 columns are the values, read once for both, one new token of each request (commit
{commit}). Wanted: 500 TFLOP/s at 32 requests of 8,192 keys, and 65 us for one request of 131,072; by the tensor cores
alone these take 92 and 46 us.

| case | us | TFLOP/s | GB/s of latents | error |
|---|---:|---:|---:|---:|
{rows}
"""


PEERS = ("FlashAttention-4", "FlexAttention")

if __name__ == "__main__":
    (HERE / "answer.md").write_text(answer(json.loads((HERE / "results.json").read_text())), encoding="utf-8")
