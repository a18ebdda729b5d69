"""answer.md of this study, from its results.

python studies/hopper/answer.py
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from sizes_answer import WANTED, sizes

HERE = Path(__file__).parent
OURS = "attenio"
Cases: TypeAlias = list[dict[str, Any]]

_TEXT = """# Is dense attention on Hopper ahead of FlashAttention-4, cuDNN, FlashAttention-2, FlexAttention and JAX?

**Prediction** (before the run). Forward attention of these lengths is bound by the tensor cores: the bytes of a head
are read once and stay in L2, and exponentials take half the time of the products at d=128 and as long as them at d=64.
So the most that can be won is what the front runner leaves idle: cuDNN reaches 600 to 730 of about 790 TFLOP/s at
d=128 and 256, and 440 to 490 at d=64, where three groups of 64 rows instead of two hide more of the exponentials. We
expect 1.02 to 1.05 at d=128, 1.1 at d=64, 1.0 to 1.05 at d=256, and less at n=2048, where a row tile's beginning and
end weigh most.

**Measured** (`results.json`, made by `run.py`): {device}, PyTorch {torch}, cuDNN {cudnn}, Triton {triton}; bf16 (JAX
fp16), {tokens} tokens and {hidden} columns in all (one sequence at n=32768), random inputs, GPU time only, contenders
in turns of every order (JAX by itself afterwards). Ratios are the fastest peer's median over ours: above 1 we are
faster. Commits: {commits}.

{first}{tables}
{others}{forms}{front}{sizes}
**What it means.** {verdict}
"""

_FORMS = """
Heads of other widths and forms, of which nothing was predicted or wanted. Of two widths the second is that of values,
of two numbers of heads the second that of keys; there are as many heads as bring the columns of values next to 2,048.
Errors are the largest against float64, of outputs or of gradients. Packed sequences stand beside FlashAttention-2 only:
PyTorch has cuDNN for them too, but its calls could not be captured in a graph.

| case | heads | ours, TFLOP/s | best peer | its TFLOP/s | ratio | our error | its error | refused by |
|---|---:|---:|---|---:|---:|---:|---:|---|
{lines}
"""


_FRONT = """
Beside the front runner, FlashAttention-4 {version}, and cuDNN, each row in one run: TFLOP/s, and the fastest peer's
median over ours. Forms are sequences x heads/KV heads x queries[/keys] x width[/that of values]. {means}

All rows on this page but the odd forms are of one commit and one GPU, measured one after the other, and everything was
compiled before. Odd forms were drawn anew afterwards, with packed sequences among them, and are of a GPU of their own;
of what they run by, only what computes packed sequences has changed since that commit.
From run to run the ratio of a case moves by up to 5 percent with clocks and power: of the GPUs that were lent, one ran
16K full heads of 128 columns backward at 0.970, the next two, with kernels that take fewer instructions, at 0.924 and
0.952.

**Packed sequences** are six of the odd forms: 1.038, 1.018, 0.998 and 0.958 forward, 1.056 and 1.013 backward. By
Gluon's kernels they were at 0.298, 0.370, 0.427, 0.607 and 0.788, 0.995 (run 65 of `tuning.json`): every tile was
masked, programs had lists that know nothing of the sequences, and some forty small kernels of PyTorch found which
keys each row sees. In CUDA C++, whose programs take row tiles as they are free, they were at 0.791, 0.976 and 0.701
(run 66), and with the longest row tiles first at 0.807, 0.929, 0.984 and 0.767. What each later step was worth (runs
67 to 69):

* The longest first, but of 11 heads and then of the other 4: 105 us; of all 15 at once 83, as a simulation said.
* One small kernel less, and one that orders row tiles in 2.5 us in place of 3.9: 5 of 66 us.
* Blocks of 64 rows for sequences of some 300 tokens, where 192 rows see keys of two: 48 us for 55. Tiles are chosen
  by the mean length, which the host knows.
* Rows at which one sequence ends and another begins: every key tile was compared with both ends, score by score. Most
  are hidden from whole rows. With other tiles 31 us in place of 45 (5 causal sequences of 4,351 tokens, another
  draw).
* A program took its next row tile when it began with one, so that the second longest went to whoever had the longest.
  It takes it at the last key tile now. A simulation of both says 68 and 56 us where the kernel took 69 before (2
  sequences of 3,219 tokens), and comes within 10 percent of six other forms; in this draw 0.939 to 0.969 became 0.958
  to 1.038.
* Gradients up to 128 columns by the kernel in CUDA C++, the tiles of keys that most rows see first.

In other draws packed forms are less: of seeds 31, 33 and 34 the least were 0.71 and 0.78 forward, before the fifth of
these steps, and 0.87 and 0.89 backward (run 69). That step and what came after have been measured with the draw of the
study only. By the simulation it brings most of these forms next to 0.9 or above it, but not 2 sequences of 4,052 tokens
and 7 heads (0.82), and it does not explain 5 causal ones of 4,011 tokens (34 us, where the kernel took 43); gradients
are as they were, and those of 112 and 128 columns run code since that was not measured either: both consumers the same,
which NVRTC compiles in two thirds of the time.

**Short calls are measured in three milliseconds of them.** Before that a sample was of ten calls at most, and of calls
that take 12 to 80 us it was over in less than one. Large products, which wake the GPU before each case, bring its
clocks down, and these take some 0.1 s to rise again: after products 4,721 full tokens took 145 us alone, 141 in tens
and 117 in 200, and 116 in tens where the GPU had rested for 20 ms (run 63 of `tuning.json`). So what was measured of
short calls was mostly how far the clocks had come. In samples of ten two of the forty odd forms that were drawn before
were at 0.899 and 0.887 in one run, and at 1.03 and 0.96 in another with the same kernel forward (run 62); in samples of
three milliseconds none of these was under 0.972, and the means were 1.116 and 1.270. Short heads forward had 22 of 24
cases at 1 or more in samples of ten. The rates of long calls are those of the run before within 2 percent.

**Graphs held stand-ins.** A call of a new size may run on a kernel that is compiled already, until the best one is; and
until 30399f60 a graph of it could be captured before that. Since then what is timed waits for the best kernel. Full
forward heads were concerned most, whose best kernel has no masks and is compiled last: the odd form of 2,287 tokens
went from 0.934 to 0.964, widths of 48 and 168 columns from 0.981 and 0.972 to 0.999 and 1.000. So rows at e3826e86 may
be less than what we reach, and not more.

**Gradients of 1,024 causal tokens of 128 columns** were the last under 0.97, at 0.967; they were at 1.010 and 0.991 in
two runs, and are at 1.039, since rows of more than 64 columns are prepared by eight warps and not by four: alone, that
takes 49 us in place of 57 (run 62). Of the 478 us before 75 go into delta, D and clearing the accumulators of dQ, 55
into converting them, at 85 percent of the rate of the memory, and 340 into the gradients. A pass that clears nothing,
and so is wrong, takes 20 us less: that was the prediction for idle warps that clear the accumulators of the next heads
while these are computed, so that zeros need not leave L2. Measured: 6 us more causal, since a block waits for the warps
that clear; and full heads of 1,024 tokens took 1,459 in place of 670, since every head waits for the one before it. It
is not taken. Programs that take whole heads need 560, and other numbers of heads together, or two launches, 1 to 50
percent more (run 58 of `tuning.json`). Between its launches the GPU waits for 0.1 to 0.6 us (run 59).

**Consumers that run the same code**, half as much of it, at 128 columns (run 54): long full heads take 1 to 3 percent
longer, causal ones up to 2, short ones as long. NVRTC compiles it in half of the time. Programs that take whole heads
keep it, others have code for each consumer.

**Predicted for the forward kernel in CUDA C++** from `studies/hopper-tiles`: 1.06 in the mean (1.005 before), the least
0.94 at 64 causal 1K, where nothing changes. Measured: 1.046 and 0.928. Then the first row tile of causal heads became
the one that is not whole, in place of the last: predicted 1.13 times as fast there, measured 1.08 (1.007 of cuDNN).

**Predicted for gradients of 96 columns in CUDA C++**: 1.02 at 16K full, 1.07 at 4K full, 1.03 at 1K full, 0.94 to 0.99
causal. Measured: 1.03, 1.05, 1.03, and 0.98 to 1.00.

**Predicted for lse and D subtracted by products** from counted accesses to shared memory (run 33 of `tuning.json`): of
some 3,200 in a step with 128 columns 128 go, 4 percent of the time where these are what a kernel waits for; with 64 and
96 columns more. Measured in turns with the kernel before: 1 to 8 percent with 64 columns, 4 to 12 with 96. At 128
columns the kernel is another one too: 1 to 5 percent, and causal heads from 4K tokens on stayed with Gluon's.

**Predicted for wide causal heads that come a few at a time** (run 34): at 1K tokens all 176 heads of 192 columns came
in turns, the first key tiles of all of them, so that Q and dO were read from memory for each of some nine key tiles,
1.2 GB, and causal gradients took as long as full ones. With a dozen heads at a time these are in L2: 445 us in place
of 630, 1.23 of FlashAttention-4. Measured: 1.08 (0.82 before), 1.18 with values of 128 columns (0.85), 1.43 with 256
(1.10).

**Predicted for causal heads of 128 columns in CUDA C++** from cycles (run 34): 7.07 million became 6.70 at 16K, where
FlashAttention-4 takes 6.58, so 0.98; 1.00 at 4K and 0.98 at 1K. Measured: 0.976, 1.012 and 0.952. At 1K a quarter of
the time is the kernels before and after, at 3.9 TB/s, and a block of nine row tiles on average has a beginning and an
end that cost as much as 2.7. In the same commits causal heads of 64 and 96 columns at 1K and 4K lost 1 to 7 percent: a
block was found again by divisions. Mended: 1.03 and 1.01 became 1.06 and 1.03 at 64, 1.01 and 1.00 became 1.01 and 1.04
at 96.

**dS held 2^14 times too large**, so that a multiplication for each score goes: predicted 6 percent fewer instructions
and less than that of time, as long heads are bound by power. Measured on two GPUs, at 128 columns: 0.953, 0.963 and
0.924 full, 0.935, 0.983 and 0.923 causal became 0.984, 0.996 and 0.952, and 0.954, 0.990 and 0.925. 128 columns were
the one width under 0.97: at 16K, 32K (0.925 full, 0.889 causal) and 1K causal.

**Predicted for dQ in the registers that dP leaves**, at 128 columns: a step then has registers for V, as S no longer
runs beside dQ, and reads a tenth less of shared memory, 10 percent of the time. Measured in turns with the kernel
before (runs 48 and 49): the order alone is 5 to 16 percent faster from 1K tokens on, and V in registers adds nothing
(4K full) or loses up to 4 percent of it. Why the order gains so much was not profiled: dQ is now computed between dS
and dV, and its way out runs beside dV, where before it waited behind the next scores and dK. To go further and give dP
registers of its own, so that only dS waits for nothing else, was predicted to gain more, and loses 1 to 14 percent
against this. A head of 16 MiB of accumulators had one stream, and its 256 blocks take two rounds of 132: in two streams
2 to 3 percent. Predicted for 16K and 32K from both: 1.02 and 1.01 full, 1.015 and 0.996 causal. Measured: 1.015, 1.018,
1.016, 0.992. All 48 cases backward are at 0.97 or more now.

**P in fp32** up to 96 columns, where it was rounded to fp16 and back: 48 of 293 instructions of a step with 16 columns
go, of 315 with 64. Predicted 8 percent at 8 and 16 columns, so 1.02 and 1.01. Measured 1.02 and 1.01; at 64 and 96
columns 1 to 3 percent in turns, and more beside FlashAttention-4, some of it the machine's.

| case | ours | FlashAttention-4 | cuDNN | ratio | our error | FlashAttention-4's |
|---|---:|---:|---:|---:|---:|---:|
{lines}
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    made = results["provenance"]
    flash_4 = next((run["flash_attn_4"] for run in results["runs"].values() if "flash_attn_4" in run), None)
    cases = [case for case in results["cases"] if case["ratio_to_best_peer"]]
    parts = {part: [case for case in cases if case["part"] == part] for part in ("forward", "backward")}
    front = [case for case in results["cases"] if case["part"] in ("front runner", "odd forms")]
    rest = [case for case in cases if case["part"] not in (*parts, *WANTED, "others", "front runner", "odd forms")]
    forms = [case for case in results["cases"] if case["part"] == "others"]
    head = "\n| case | ours, ms | best peer | its ms | ratio | target |\n|---|---:|---|---:|---:|---|\n"
    return _TEXT.format(
        device=made["device"], torch=made["torch"], cudnn=made["cudnn"], triton=made["triton"],
        tokens="16,384", hidden="2,048", commits=_commits(cases),
        tables="\n\n".join(_table(part, found) for part, found in parts.items() if found),
        others=head + "\n".join(_row(case) for case in rest) + "\n" if rest else "", forms=_forms(forms),
        front=_front(front, flash_4), sizes=sizes(results["cases"]),
        first=_first(front, flash_4),
        verdict=_front_verdict(front)
        + " ".join((*_verdicts(parts["forward"], parts["backward"], rest), *_verdicts_on_forms(forms))),
    )  # fmt: skip


def _commits(cases: Cases) -> str:
    """Which parts were measured at which commit."""
    parts: dict[str, list[str]] = {}
    for case in cases:
        listed = parts.setdefault(case["commit"], [])
        if case["part"] not in listed:
            listed.append(case["part"])
    return "; ".join(f"{', '.join(listed)} at {commit}" for commit, listed in parts.items())


def _table(part: str, cases: Cases) -> str:
    """TFLOP/s of ours and of the fastest peer, a line for each width and mask, a column for each length."""
    lengths = sorted({case["about"]["n"] for case in cases})
    lines = [
        f"{part.capitalize()}, TFLOP/s of ours / of the fastest peer = ratio:",
        "",
        "| d, mask | " + " | ".join(f"n={n}" for n in lengths) + " | geometric mean |",
        "|---|" + "---:|" * (len(lengths) + 1),
    ]
    for d, mask in sorted({(case["about"]["d"], case["about"]["mask"]) for case in cases}, key=_order):
        row = {case["about"]["n"]: case for case in cases if (case["about"]["d"], case["about"]["mask"]) == (d, mask)}
        cells = [_cell(row[n]) if n in row else "" for n in lengths]
        lines.append(f"| d={d}, {mask} | " + " | ".join(cells) + f" | {_mean(row.values()):.3f} |")
    return "\n".join(lines)


def _order(key: tuple[int, str]) -> tuple[int, bool]:
    return key[0], key[1] == "causal"


def _cell(case: dict[str, Any]) -> str:
    mine, peer = case["contenders"][OURS]["tflop_per_s"], case["contenders"][case["best_peer"]]["tflop_per_s"]
    name = "" if case["best_peer"] == "cudnn" else f" ({case['best_peer']})"
    return f"{mine:.0f} / {peer:.0f}{name} = {case['ratio_to_best_peer']:.3f}"


def _row(case: dict[str, Any]) -> str:
    mine, peer = case["contenders"][OURS]["median_ms"], case["contenders"][case["best_peer"]]["median_ms"]
    ratio, target = case["ratio_to_best_peer"], case["target"]
    goal = "" if target is None else f"{target:g}: {'met' if ratio >= target else 'missed'}"
    return f"| {case['case']} | {mine:.4g} | {case['best_peer']} | {peer:.4g} | {ratio:.3f} | {goal} |"


def _forms(cases: Cases) -> str:
    """A line for each, also where nobody else computes such heads, or we do not."""
    return _FORMS.format(lines="\n".join(_form(case) for case in cases)) if cases else ""


def _form(case: dict[str, Any]) -> str:
    about, peer, ratio = case["about"], case["best_peer"], case["ratio_to_best_peer"]
    heads = dict.fromkeys((about["heads"], about["kv_heads"]))
    mine, its = (
        [_number(case, name, what, form) for what, form in (("tflop_per_s", ".0f"), ("max_abs_error", ".1e"))]
        for name in (OURS, peer)
    )
    cells = (
        case["case"], "/".join(map(str, heads)), mine[0], peer or "", its[0], f"{ratio:.3f}" if ratio else "",
        mine[1], its[1], ", ".join(name for name, entry in case["contenders"].items() if "refused" in entry),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _front(cases: Cases, peer: str | None) -> str:
    """A line for each case beside FlashAttention-4, and means by part and direction."""
    if not cases:
        return ""
    means = []
    for part in dict.fromkeys(case["part"] for case in cases):
        for direction in ("forward", "backward"):
            these = [case for case in cases if (case["part"], case["about"]["direction"]) == (part, direction)]
            these = [case for case in these if case["ratio_to_best_peer"]]
            if these:
                least = min(case["ratio_to_best_peer"] for case in these)
                means.append(f"{part}, {direction}: {_mean(these):.3f} over {len(these)}, the least {least:.3f}")
    lines = []
    for case in cases:
        rates = [_number(case, name, "tflop_per_s", ".0f") for name in (OURS, "flash-4", "cudnn")]
        errors = [_number(case, name, "max_abs_error", ".1e") for name in (OURS, "flash-4")]
        ratio = case["ratio_to_best_peer"]
        cells = (case["case"], *rates, f"{ratio:.3f}" if ratio else "", *errors)
        lines.append("| " + " | ".join(cells) + " |")
    said = f"Geometric means: {'; '.join(means)}." if means else ""
    return _FRONT.format(version=peer or "(not there)", means=said, lines="\n".join(lines))


def _first(cases: Cases, peer: str | None) -> str:
    """What the reader asks first, before the tables of other peers."""
    said = _front_verdict(cases)
    if not said:
        return ""
    return (
        f"**Beside FlashAttention-4 {peer or ''}** and cuDNN: {said[0].lower()}{said[1:]}Its"
        " table is further down. The first two are of all other peers, of which cuDNN is mostly the fastest.\n\n"
    )


def _front_verdict(cases: Cases) -> str:
    found = [case for case in cases if case["part"] == "front runner" and case["ratio_to_best_peer"]]
    if not found:
        return ""
    means = {
        direction: _mean([case for case in found if case["about"]["direction"] == direction])
        for direction in ("forward", "backward")
    }
    behind = [name for name, mean in means.items() if mean < 1]
    said = (
        f"behind FlashAttention-4 or cuDNN {' and '.join(behind)}" if behind else "ahead of FlashAttention-4 and cuDNN"
    )
    return f"We are {said}: {', '.join(f'{name} {mean:.3f}' for name, mean in means.items())} in the mean. "


def _number(case: dict[str, Any], name: str | None, what: str, form: str) -> str:
    """What was measured of a contender, or nothing where it computes no such heads."""
    found = case["contenders"].get(name, {}).get(what)
    return "" if found is None else format(found, form)


def _verdicts_on_forms(cases: Cases) -> Iterator[str]:
    compared = [case for case in cases if case["ratio_to_best_peer"]]
    for direction in ("forward", "backward"):
        these = [case for case in compared if case["about"]["direction"] == direction]
        if these:
            least = min(these, key=lambda case: case["ratio_to_best_peer"])
            yield (
                f"Other widths and forms, {direction}: geometric mean {_mean(these):.3f} over {len(these)} cases; the"
                f" least is {least['ratio_to_best_peer']:.3f}, {least['case']}."
            )
    alone = [case["case"] for case in cases if case["best_peer"] is None]
    if alone:
        yield f"Without a peer: {'; '.join(alone)}."


def _mean(cases: Any) -> float:
    ratios = [case["ratio_to_best_peer"] for case in cases]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _by_means(cases: Cases) -> str:
    """Where samples come in two kinds, medians may be of different kinds: the case in which means differ most."""

    def ratio(case: dict[str, Any]) -> float:
        theirs, ours = (fmean(case["contenders"][name]["samples_ms"]) for name in (case["best_peer"], OURS))
        return theirs / ours

    far = max(cases, key=lambda case: abs(math.log(ratio(case) / case["ratio_to_best_peer"])))
    return (
        f"By means of samples instead of medians {far['case']} differs most: {ratio(far):.3f} instead of"
        f" {far['ratio_to_best_peer']:.3f}."
    )


def _verdicts(forward: Cases, backward: Cases, rest: Cases) -> Iterator[str]:
    mean, least = _mean(forward), min(forward, key=lambda case: case["ratio_to_best_peer"])
    yield (
        f"Beside all but FlashAttention-4, forward: geometric mean {mean:.3f} over {len(forward)} cases"
        f" ({_wanted(mean, 1.05)}); the least is"
        f" {least['ratio_to_best_peer']:.3f}, {least['case']} ({_wanted(least['ratio_to_best_peer'], 0.97)})."
    )
    errors = [case["contenders"][OURS]["max_abs_error"] for case in forward]
    yield f"The largest error against float64 is {max(errors):.1e}."
    compared = [case for case in forward if "median_ms" in case["contenders"].get("jax", {})]
    yield f"JAX was timed in {len(compared)} of the cases."
    if backward:
        wide = [case for case in backward if case["about"]["d"] == 256]
        yield (
            f"Backward, the same: geometric mean {_mean(backward):.3f} over {len(backward)} cases"
            f" ({_wanted(_mean(backward), 1.0)}), at d=256 {_mean(wide):.3f} ({_wanted(_mean(wide), 1.3)})."
        )
        yield _by_means([*forward, *backward])
        compared = [case for case in (*backward, *rest) if "max_abs_error" in case["contenders"][OURS]]
        compared = [case for case in compared if case["part"] in ("backward", "deterministic")]
        if compared:
            mine, peers = ([_error(case, name) for case in compared] for name in (OURS, "flash"))
            yield (
                f"The largest error of a gradient against float64 is {max(mine):.1e} in {len(compared)} cases,"
                f" FlashAttention-2's {max(peers):.1e}."
            )
        else:
            yield (
                "Gradients were timed, not compared: these kernels were held to the definition in an interpreter, their"
                " first forms on the GPU too, and a first call holds them to the portable kernels."
            )
    fast = {_key(case): case["contenders"][OURS]["median_ms"] for case in backward}
    slower = [
        case["contenders"][OURS]["median_ms"] / fast[_key(case)]
        for case in rest
        if case["part"] == "deterministic" and _key(case) in fast
    ]
    if slower:
        yield (
            f"The deterministic backward pass takes {min(slower):.2f} to {max(slower):.2f} of the time of the other at"
            f" n=8192 (1.15 at most wanted: {'met' if max(slower) <= 1.15 else 'missed'})."
        )
    missed = [case["case"] for case in rest if case["target"] and case["ratio_to_best_peer"] < case["target"]]
    if missed:
        yield f"Missed besides: {'; '.join(missed)}."


def _error(case: dict[str, Any], name: str) -> float:
    found: float = case["contenders"][name].get("max_abs_error", 0.0)
    return found


def _key(case: dict[str, Any]) -> tuple[int, str, int]:
    about = case["about"]
    return about["d"], about["mask"], about["n"]


def _wanted(found: float, target: float) -> str:
    return f"{target:g} wanted: {'met' if found >= target else 'missed'}"


if __name__ == "__main__":
    made = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(made), encoding="utf-8")
