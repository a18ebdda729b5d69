"""The part of answer.md on sizes beside those of models, from results."""

import math
from typing import Any, TypeAlias

OURS = "attenio"
Cases: TypeAlias = list[dict[str, Any]]
# What is wanted of every case of a part.
WANTED = {"widths": 0.97, "short heads": 1.0, "wide heads": 1.0, "single precision": 1.0}

_TEXT = """
## Every width, wider heads, short sequences

Beside FlashAttention-4, cuDNN, or what PyTorch chooses (sdpa), each part in one run. Widths are every multiple of 8 at
4K tokens, full forward and causal backward, the harder mask of each. {means}

**Predicted for products of as many columns as heads have, in steps of 16**, where kernels computed 64, 96 or 128: the
tensor cores' share of 80 columns in 96 and of 112 in 128 goes, so backward 1.02 and 1.01 (0.943 and 0.953 before), and
narrow heads are left with their exponentials. With dS held 2^14 times too large one multiplication of 15 instructions
for each score goes as well. Measured before, with the first, with both: 8 columns 0.683, 0.877, 0.951; 32 columns
0.805, 0.970, 0.997; 48 columns 0.943, 1.022, 1.067; 80 columns 0.943, 1.026, 1.080; 112 columns 0.953, 1.019, 1.022.

**Odd multiples of 8** lost most: 72 columns 0.824, 88 0.855, 104 0.812, 120 0.828. The kernel between the launches read
rows by two bytes, because Triton knows of a stride only whether 16 divides it. It reads by sixteen now: 1.095, 1.058,
1.008, 0.953. Forward such rows begin in the middle of the 32 bytes that memory is read in. A copy of keys and values
that does not gains a fifth at 152 columns (0.930 to 1.142) and loses at 72 and 88 (1.03 to 0.99, 1.06 to 0.95), so it
is made for heads of more than 128 columns computed in panels of 32 only; the rows below had it at 72 and 88 too.

**What holds the rest back**, as far as it was looked at; no profile was taken of these. 8 and 16 columns backward:
exponentials alone would take 2.2 of the 7.0 ms, and FlashAttention-4 has tiles of 128 rows, where ours have 64, so that
barriers and addresses come half as often. 168, 184 and 248 columns forward, 120 backward: rows that begin within
sectors. Short forward sequences are near the rate of the memory: 128 tokens of 64 columns take 42 us at the full rate,
cuDNN takes 53 and we take 59; one program has an SM to itself, and nothing else runs while it waits for its Q. Short
causal gradients of 128 columns: at 1K the kernels before and after are a quarter of the time, and shorter sequences
leave them more. Heads of 264 to 384 columns forward run in portable Triton, 264 of them in 512. fp32 is multiplied
without tensor cores, and the more columns the more that costs; gradients of 128 and 256 columns were not waited for.
Products of three TF32 parts were right to 3e-7 up to 64 columns; six products of bf16 parts took 0.36 to 0.64 of
PyTorch's time forward up to 128 columns, and then read memory that is not theirs where values are wider than keys
(Triton 3.6), so neither is in yet.

| case | ours | FlashAttention-4 | cuDNN | sdpa | ratio | our error |
|---|---:|---:|---:|---:|---:|---:|
{lines}
"""


def sizes(cases: Cases) -> str:
    """The text, or nothing where no such case was measured."""
    found = [case for case in cases if case["part"] in WANTED and case["ratio_to_best_peer"]]
    if not found:
        return ""
    means = "; ".join(
        _said(part, direction, these)
        for part in WANTED
        for direction in ("forward", "backward")
        if (these := [case for case in found if (case["part"], case["about"]["direction"]) == (part, direction)])
    )
    return _TEXT.format(means=f"Geometric means: {means}.", lines="\n".join(map(_line, found)))


def _said(part: str, direction: str, cases: Cases) -> str:
    ratios = [case["ratio_to_best_peer"] for case in cases]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    enough = sum(ratio >= WANTED[part] for ratio in ratios)
    return (
        f"{part}, {direction}: {mean:.3f}, the least {min(ratios):.3f}, {enough} of {len(ratios)} cases at"
        f" {WANTED[part]:g} or more"
    )


def _line(case: dict[str, Any]) -> str:
    measured = [case["contenders"].get(name, {}) for name in (OURS, "flash-4", "cudnn", "sdpa")]
    rates = [f"{each['tflop_per_s']:.0f}" if "tflop_per_s" in each else "" for each in measured]
    error = f"{measured[0]['max_abs_error']:.1e}" if "max_abs_error" in measured[0] else ""
    return f"| {case['case']} | {' | '.join(rates)} | {case['ratio_to_best_peer']:.3f} | {error} |"
