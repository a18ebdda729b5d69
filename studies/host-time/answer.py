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

| call | SDPA | ours |
|---|---:|---:|
{rows}

**What it means.** A decode step and a prefill take the host {decode:.0f} and {prefill:.0f} microseconds, no more than
predicted. A training step takes {training:.0f}, {factor:.1f} times what SDPA takes, and {than} than first predicted:
autograd calls a Function of Python in a thread of its own. {alone}

**The floor.** A Function of Python that replays the same three launches, and asks nothing, took 136 microseconds for a
step where ours took 184, SDPA 118, and one that computes nothing 81; with autograd in one thread 90, 131, 72 and 39
(run 55 of `studies/hopper/tuning.json`). So some 45 of ours go into finding out that nothing watches and that the call
is one that is known, and some 50 of each into autograd's other thread, which SDPA waits for too.

Ratios hold within a run only. On another machine of the same day, with the same code for this, a step took 370 (three
leaves 329) where SDPA took 186 (191) and nothing 121 (125); in three runs of an earlier day SDPA's training steps took
149 to 231 microseconds and ours 277 to 434. Launches of the kernels in CUDA C++ made structures of ctypes anew each
time; since commit 3b48f37 they take about half of the time in Python. A prefill took 54 before, where SDPA took 32, and
takes {prefill:.0f} beside SDPA's {library:.0f}.

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
"""


def answer(results: dict[str, Any]) -> str:
    """The text of answer.md."""
    software = results["provenance"]
    medians = {
        case["case"]: {name: statistics.median(each) for name, each in case["microseconds"].items()}
        for case in results["cases"]
    }
    training = medians["training step"]
    return _TEXT.format(
        commit=software["commit"], device=software["device_name"], torch=software["torch"], triton=software["triton"],
        samples=len(next(iter(results["cases"][0]["microseconds"].values()))),
        rows="\n".join(f"| {name} | {each['SDPA']:,.0f} | {each['ours']:,.0f} |" for name, each in medians.items()),
        again=_AGAIN if "nothing" in training else "", alone=_alone(training.get("nothing")),
        than="more" if training["ours"] > 250 else "no more",
        decode=medians["decode"]["ours"], prefill=medians["prefill"]["ours"], training=training["ours"],
        factor=training["ours"] / training["SDPA"], library=medians["prefill"]["SDPA"],
    )  # fmt: skip


def _alone(nothing: float | None) -> str:
    """What a step of a Function that computes nothing takes, if that was measured."""
    if nothing is None:
        return "What that costs was not measured apart."
    return f"One that computes nothing, and only allocates its results, takes {nothing:.0f}."


if __name__ == "__main__":
    found = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(found), encoding="utf-8")
