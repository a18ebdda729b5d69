"""answer.md of this study, from its results.

python studies/host-time/answer.py
"""

import json
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_TEXT = """# How long does Python take for a call of attention on a GPU?

**Prediction** (before the run). By profile, of the 185 microseconds that a decode step took some 35 were spent in
PyTorch's dispatcher, 25 on checks, 65 on finding out what to launch and 35 in Triton's launcher; of the 1,377 of a
training step most in Triton's. None of it depends on data. Once a call of the same form has run, what is left is to
allocate the results, to ask whether anybody watches, and to launch: about 30 microseconds, and about 250 for a training
step.
{again}
**Measured** (`results.json`, made by `run.py`): {device}, PyTorch {torch}, Triton {triton}, bf16, calls that are
queued and not waited for, sizes at which the GPU is done sooner than the host; medians of {samples} samples,
microseconds; commit {commit}.

| call | SDPA | ours | ratio | floor | nothing |
|---|---:|---:|---:|---:|---:|
{rows}

*Floor*: a Function of Python that replays the launches of a known step, and does not ask whether it is that one.
*Nothing*: one that only allocates its results.

**What it means.** A decode step and a prefill take the host {decode:.0f} and {prefill:.0f} microseconds, SDPA
{sdpa_decode:.0f} and {library:.0f}. A training step takes {training:.0f}, {factor:.2f} times what SDPA takes; all but
{asking:.0f} of that is the floor. Forms are found and launches handed over in C now (`replay/native.c`): with Python in
its place the same step took 1.3 to 1.7 times as long as SDPA's within one process, and the floor 1.1 to 1.2 times (run
61 of `studies/hopper/tuning.json`).

**Ratios hold within a run only.** In six runs of one day with this code, on four machines, SDPA's training step took
131, 140, 155, 191, 222 and 249 microseconds and ours 1.14, 1.15, 1.12, 1.12, 1.15 and 1.12 times as long; the floor
0.93 to 0.99 times. A deterministic step, whose gradients are two kernels more, varied most: 1.2 to 1.5 times. In runs
of earlier days steps took 1.6 to 2 times as long as SDPA's, which took 115 to 231 microseconds. A prefill took 54 at
first, where SDPA took 32.

Keys that grow make a new form at every step: that call is checked and planned like a first one, and those of a model's
other layers repeat it. SDPA's cuDNN plans every length anew as well.
"""
# What was predicted when a Function that computes nothing had joined the others.
_AGAIN = """
**Prediction of the training step** (before the second run). It took 430 microseconds in the first run and 357 in one
that profiled it; in that the median of single steps was 210, and why they differ so was not found. With autograd in one
thread a step took 158: 53 for the forward pass, 57 within the backward pass, and the rest for autograd. Of the 110 some
14 were spent on asking what is known of tensors that autograd had kept, and, as we guess, 3 on its own question for
transforms and 5 on making tensors by their shapes. These are saved now: about 300.

**Prediction of what C saves** (before the last run). A Function of Python that replays the same launches, and asks
nothing, took 136 microseconds where ours took 184, SDPA 118, and one that computes nothing 81 (run 55 of
`studies/hopper/tuning.json`). So 45 go into finding out that nothing watches and that the call is one that is known,
and 55 into allocating and launching; to read ten tensors takes C less than one, and to launch a kernel two to three.
A step should take 140 where SDPA takes 118, and that Function 115.
"""


def answer(results: dict[str, Any]) -> str:
    """The text of answer.md."""
    software = results["provenance"]
    medians = {
        case["case"]: {name: statistics.median(each) for name, each in case["microseconds"].items()}
        for case in results["cases"]
    }
    decode, prefill, training = medians["decode"], medians["prefill"], medians["training step"]
    return _TEXT.format(
        commit=software["commit"], device=software["device_name"], torch=software["torch"], triton=software["triton"],
        samples=len(next(iter(results["cases"][0]["microseconds"].values()))), again=_AGAIN,
        rows="\n".join(_row(name, each) for name, each in medians.items()),
        decode=decode["ours"], sdpa_decode=decode["SDPA"], prefill=prefill["ours"], library=prefill["SDPA"],
        training=training["ours"], factor=training["ours"] / training["SDPA"],
        asking=training["ours"] - training["floor"],
    )  # fmt: skip


def _row(name: str, found: dict[str, float]) -> str:
    cells = [f"{found['SDPA']:,.0f}", f"{found['ours']:,.0f}", f"{found['ours'] / found['SDPA']:.2f}"]
    cells += [f"{found[each]:,.0f}" if each in found else "" for each in ("floor", "nothing")]
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    text = answer(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    (HERE / "answer.md").write_text(text, encoding="utf-8")
