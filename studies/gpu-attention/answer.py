"""answer.md of this study, from its results.

python studies/gpu-attention/answer.py
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_TEXT = """# How fast is attention() on a GPU, beside every peer that PyTorch has?

**Prediction** (before the run). Decode moves keys and values once and computes next to nothing: the best any kernel
can do is the memory's rate, and the peers are near it for long keys, so a tie there, and a gain only where the last
wave of work is short. A shared prefix is read once for all requests instead of once for each: with 32,768 common
keys, 512 own ones and 64 requests that is {prefix_words:.0f} times fewer words; arithmetic (64 requests of 4 rows)
becomes the limit first. The deterministic backward pass makes seven products where an unordered one makes five, and
waits for nobody: PyTorch's own deterministic one loses more than half of its rate, so at least 1.5 times it. Dense
prefill in portable Triton has no warp specialisation: three quarters of cuDNN.

**Measured** (`results.json`, made by `run.py`): {device}, PyTorch {torch}, cuDNN {cudnn}, Triton {triton}; bf16,
random inputs, GPU time, contenders one after the other; gradients and degree 2 by events around the call. The ratio is
the best peer's median over ours: above 1 we are faster. {commits}

| case | ours, ms | best peer | its ms | ratio | target |
|---|---:|---|---:|---:|---|
{rows}

Largest error against float64, where it was taken: ours {our_error:.1e}, the peers' in the same cases
{peer_error:.1e}.

**What it means.** Met: {met}. Missed: {missed}. Without a target the ratio says how far portable Triton is from the
front: {dense}.
{approximate}
A masked decode step was expected to be many times slower in PyTorch, because it used to leave the fused kernels
there. In this version a mask on one query does not: cuDNN's kernel takes booleans and biases, of a sequence or of a
head, for any number of keys, and there is nothing to win five times. It is where cuDNN falls back to tiles of 64 rows
(several queries), where it may not be used (deterministic algorithms, fp32), and where keys are copied for every head
first, which is how transformers calls SDPA with a mask. The ratios: {masked}.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    made, cases = results["provenance"], [case for case in results["cases"] if case["ratio_to_best_peer"] is not None]
    aimed = [case for case in cases if case["target"] is not None]
    approximate = [case for case in cases if "tolerance" in case]
    dense = [case["ratio_to_best_peer"] for case in cases if case["target"] is None and case not in approximate]
    met = [case for case in aimed if case["ratio_to_best_peer"] >= case["target"]]
    missed = [case for case in aimed if case["ratio_to_best_peer"] < case["target"]]
    errors = [(_error(case, ours=True), _error(case, ours=False)) for case in cases if case not in approximate]
    known = [(ours, theirs) for ours, theirs in errors if ours is not None and theirs is not None]
    return _TEXT.format(
        prefix_words=64 * (32768 + 512) / (32768 + 64 * 512),
        device=made["device"],
        torch=made["torch"],
        cudnn=made["cudnn"],
        triton=made["triton"],
        commits=_commits(cases, made["commit"]),
        rows="\n".join(_row(case) for case in cases),
        our_error=max(ours for ours, _ in known),
        peer_error=max(theirs for _, theirs in known),
        met=_named(met),
        missed=_named(missed),
        masked=_named([case for case in cases if case["case"].startswith("decode with a ")]),
        dense=f"{min(dense):.2f} to {max(dense):.2f}",
        approximate=_approximate(approximate),
    )


def _commits(cases: list[dict[str, Any]], commit: str) -> str:
    """Which cases are of which commit."""
    others = {case["commit"]: [] for case in cases if case["commit"] != commit}
    for case in cases:
        if case["commit"] != commit:
            others[case["commit"]].append(case["case"])
    older = "".join(f" ({', '.join(listed)}: {each})" for each, listed in others.items())
    return f"Commit: {commit}{older}."


_APPROXIMATE = """
**With a tolerance.** Predicted: at 262,144 keys and 2,145 features both products need {fewer:.0f} times fewer
operations; as run, in blocks of 16 x 16 coordinates and two halves of bf16, {as_run:.0f} times fewer (full), at a lower
rate. Measured, one head, the whole call with its certificate and the wait for it, against the best exact peer:
{rows}.
The error is the largest at 64 rows over the whole length, against float64; outputs are stored in bf16.
"""


def _approximate(cases: list[dict[str, Any]]) -> str:
    """What approximating came to; nothing in results without it."""
    if not cases:
        return ""
    told = cases[0]["tolerance"]
    return _APPROXIMATE.format(
        fewer=262144 / 2145 * 64 / 65,
        as_run=told["exact_operations"] / told["operations"],
        rows=";\n".join(_promised(case) for case in cases),
    )


def _promised(case: dict[str, Any]) -> str:
    told, ours, peer = case["tolerance"], case["contenders"]["attenio"], _best_peer(case)[1]
    return (
        f"{case['case']}: {ours['median_ms']:.2f} ms, {told['kernels_ms']:.2f} ms of it in kernels, against"
        f" {peer['median_ms']:.1f} ms, {case['ratio_to_best_peer']:.1f} times as fast; error"
        f" {ours['max_abs_error']:.1e}, guaranteed {told['guaranteed_error'] * told['error_unit']:.2g}"
        f" ({told['guaranteed_error']:.2g} of half the range of values)"
    )


def _best_peer(case: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    timed = {name: found for name, found in case["contenders"].items() if name != "attenio" and "median_ms" in found}
    return min(timed.items(), key=lambda entry: entry[1]["median_ms"])


def _row(case: dict[str, Any]) -> str:
    name, peer = _best_peer(case)
    ours, target = case["contenders"]["attenio"], case["target"]
    aim = "" if target is None else f"{target:g}: {'met' if case['ratio_to_best_peer'] >= target else 'missed'}"
    ratio = case["ratio_to_best_peer"]
    return f"| {case['case']} | {ours['median_ms']:.4g} | {name} | {peer['median_ms']:.4g} | {ratio:.2f} | {aim} |"


def _error(case: dict[str, Any], *, ours: bool) -> float | None:
    found: float | None = (case["contenders"]["attenio"] if ours else _best_peer(case)[1]).get("max_abs_error")
    return found


def _named(cases: list[dict[str, Any]]) -> str:
    return "; ".join(f"{case['case']} ({case['ratio_to_best_peer']:.2f})" for case in cases) or "none"


if __name__ == "__main__":
    text = answer(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    (HERE / "answer.md").write_text(text, encoding="utf-8")
