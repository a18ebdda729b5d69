"""answer.md of this study, from its results.

python studies/paged-caches/answer.py
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
_TEXT = """# What do keys in pages cost, and save, on a CPU?

**By words**: pages that requests share are read once for the rows of all of them, so {requests} requests on one prompt
should take little longer than one. Keys of 8 bits are a quarter of the words, but a CPU converts them before it
multiplies, and computes in 32 bits.

**Measured** (`results.json`, made by `run.py`): {threads} threads of an {processor} processor, PyTorch {torch},
transformers {transformers}, 32/8 heads, d=128, pages of 64, one new token each, medians of {repeats} samples,
contenders in turns, ratios by the median over the turns, commit {commit}, {date}. {busy}SDPA reads no pages: it is
given gathered tensors, and the gathering belongs to the call where pages are what there is.

| case | contender | ms | over the first | error against float64 |
|---|---|---:|---:|---:|
{rows}

- **Shared pages** read once take {apart:.1f} times less than request by request, {gathering:.1f} times less than SDPA
  with the gathering, and {before:.2f} of SDPA's time on tensors that were gathered before.
- **Pages in int8** take {int8:.2f} of the time of pages in fp32, and SDPA with the gathering {int8_gathering:.1f} times
  as long as they do; pages in fp8 take {fp8:.2f}: this processor converts fp8 in software. What 8 bits save here is
  memory.
- **Error of 8 bits**: outputs move by {error_int8:.1%} in int8 and {error_fp8:.1%} in fp8 (norms, random keys and
  values). Keys themselves are off by {rounding}.

## Generating

Random models of transformers, 4 prompts of 64 tokens, 32 new ones each, greedy; tokens a second, and whether they are
eager's.

| model | eager | sdpa | attenio | attenio with a paged cache |
|---|---:|---:|---:|---:|
{models}

These models are so small that what is timed is mostly the way to the kernels, which is longer through pages. sdpa does
not serve the models where it has no number: {refused}.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    made, cases = results["provenance"], results["cases"]
    shared, int8, fp8 = (case["contenders"] for case in cases)

    def ratio(found: dict[str, Any], one: str, other: str) -> float:
        """Turn by turn: what disturbs one contender of a turn disturbs its neighbour."""
        pairs = zip(found[one]["samples_ms"], found[other]["samples_ms"], strict=True)
        return median(mine / theirs for mine, theirs in pairs)

    rows = [
        f"| {case['case']} | {name} | {each['median_ms']:.1f} |"
        f" {ratio(case['contenders'], name, next(iter(case['contenders']))):.2f} |"
        f" {each['relative_error']:.1e} |"
        for case in cases
        for name, each in case["contenders"].items()
    ]
    names = ("eager", "sdpa", "attenio", "attenio, pages")
    models = [
        f"| {row['model']} | " + " | ".join(_told(row["contenders"].get(name, {})) for name in names) + " |"
        for row in results["models"]
    ]
    refused = [row["model"] for row in results["models"] if "refused" in row["contenders"]["sdpa"]]
    ours, load = ("attenio, read once", "attenio, 8 bits"), max(made.get("load", [0.0]))
    busy = f"The computer was busy with other work (load average up to {load:g}): ratios count, and not times. "
    return _TEXT.format(
        **made, busy=busy if load > 1.5 * made["threads"] else "",
        repeats=len(shared[ours[0]]["samples_ms"]), requests=cases[0]["case"].split()[0],
        rows="\n".join(rows),
        models="\n".join(models), apart=ratio(shared, "attenio, by request", ours[0]),
        gathering=ratio(shared, "SDPA, gathered in the call", ours[0]),
        before=ratio(shared, ours[0], "SDPA, gathered before"), int8=ratio(int8, ours[1], "attenio, 32 bits"),
        int8_gathering=ratio(int8, "SDPA, gathered in the call", ours[1]), fp8=ratio(fp8, ours[1], "attenio, 32 bits"),
        error_int8=int8[ours[1]]["relative_error"], error_fp8=fp8[ours[1]]["relative_error"],
        rounding=", ".join(f"{value:.2%} ({name})" for name, value in results["rounding"].items()),
        refused=" and ".join(refused) or "none",
    )  # fmt: skip


def _told(found: dict[str, Any]) -> str:
    if "tokens_per_s" not in found:
        return ""
    return f"{found['tokens_per_s']:.0f}, " + ("eager's" if found["are_eagers"] else "others")


if __name__ == "__main__":
    (HERE / "answer.md").write_text(answer(json.loads((HERE / "results.json").read_text())), encoding="utf-8")
