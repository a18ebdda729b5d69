"""answer.md of this study, from its results.

python studies/first-calls/answer.py
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Seconds that are wanted at most: with nothing compiled, with a warm disk, and at another length, batch or heads.
WANTED = {"nothing compiled": 5.0, "warm disk": 0.5, "other sizes": 0.05}
OTHERS = ("another length", "another batch", "other heads")

_TEXT = """# How long does a first call take on a GPU, and one at a new size?

**Before**: a first prefill took 6 s and a first step of training 18 s, a new length 2.8 s where it divided differently,
3.4 s under a window and 43 s at d=72, and portable kernels measured tiles for 16 to 31 s. Wanted: 5 s with nothing
compiled, 0.5 s with what is compiled on disk, 0.05 s at another length, batch or number of heads.

**Measured** (`results.json`, made by `run.py`): {device}, driver {driver}, PyTorch {torch}, Triton {triton}, {runs}.
Seconds until the GPU was done. The first two are of a call, the next two of a step of training after it, the last is
the longest of calls and steps at another length, another batch and other heads, with nothing compiled before. PyTorch's
own first gradient of a process comes before all of it: it imports SymPy for 1.7 s, whoever computes attention, and was
counted here until commit 938489f. A warm disk has Python's bytecode too, which Python was told not to write here until
commit 3b48f37. Now and then a process ended with "terminate called without an active exception". It is a thread of
PyTorch's autograd that gives a tensor back to Python while the interpreter ends: of 80 processes that ended right after
gradients of PyTorch's own attention, 40 at once, 3 did so, and of 40 with ours 3; of 80 that computed one more gradient
first, none. The processes of this study do since. From run to run the first call under a soft cap took 4.05 to 5.10 s.
In one process of 13 with a warm disk another number of heads of a decode step took 0.07 s, 0.15 s after the first call.

| form | call | warm disk | training step | warm disk | other sizes |{head}
|---|---:|---:|---:|---:|---:|{rule}
{lines}

**What it means.** {verdict}

{others}

**What it was worth.** A first call with a warm disk took 0.50 to 1.1 s. By profile 0.4 s of it was Python compiling its
own modules, 0.35 s Triton hashing its 400 MB, 0.2 to 0.5 s Triton reading the texts of 220 kernels as they were
imported, and 0.12 s the catalogue of machines. Bytecode is kept now, the hash is remembered while no file changes,
kernels are imported where they are launched, and libyaml reads the catalogue. Hashing on a thread beside the imports
gained nothing: it waited for Python's lock after every megabyte. Kernels of a first gradient are compiled side by side:
in fp32 a step took 8.2 s with nothing compiled, and with portable kernels 4.5 s. A first call whose best kernel is one
of Triton's runs one that NVRTC compiles, in a third of the time, while Triton compiles: causal heads of 256 columns
took 5.1 s. What must repeat to the bit has the same tiles at every length, batch and number of heads; before, another
number of heads took 4.5 s.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    made, rows = results["provenance"], [_seconds(form) for form in results["forms"]]
    stood_in = any(_best(form) for form in results["forms"])
    lines = "\n".join(
        f"| {form['form']} | "
        + " | ".join("" if x is None else f"{x:.2f}" for x in (*row, *([_latest(form)] if stood_in else [])))
        + " |"
        for form, row in zip(results["forms"], rows, strict=True)
    )
    verdict = " ".join(
        f"{name}: {sum(x is not None and x <= most for x in column)} of {sum(x is not None for x in column)} in"
        f" {most:g} s."
        for name, column, most in (
            ("Calls with nothing compiled", [row[0] for row in rows], WANTED["nothing compiled"]),
            ("Calls with a warm disk", [row[1] for row in rows], WANTED["warm disk"]),
            ("Training steps with nothing compiled", [row[2] for row in rows], WANTED["nothing compiled"]),
            ("Training steps with a warm disk", [row[3] for row in rows], WANTED["warm disk"]),
            ("Other sizes", [row[4] for row in rows], WANTED["other sizes"]),
        )
    )
    return _TEXT.format(
        device=made["device_name"], driver=made["driver"], torch=made["torch"], triton=made["triton"],
        runs="; ".join(_runs(results["forms"])), lines=lines, verdict=verdict,
        head=" best after |" if stood_in else "", rule="---:|" if stood_in else "",
        others=_stand_ins(results["forms"]) if stood_in else _WAITED,
    )  # fmt: skip


def _runs(forms: list[dict[str, Any]]) -> list[str]:
    """How many processes ran at once, and at which commit, with the forms where there is more than one such run."""
    runs: dict[tuple[int, str], list[str]] = {}
    for form in forms:
        runs.setdefault((form["at_once"], form["commit"]), []).append(form["form"])
    said = [f"{at_once} process{'es' * (at_once > 1)} at once at commit {commit[:7]}" for at_once, commit in runs]
    if len(said) == 1:
        return said
    return [f"{each}: {', '.join(named)}" for each, named in zip(said, runs.values(), strict=True)]


_WAITED = """\
Other heads and lengths compile where they choose other tiles: the second kernel of a width, or the one with masks. What
is compiled already takes 1 to 34 ms with them."""


def _stand_ins(forms: list[dict[str, Any]]) -> str:
    """What is to be said of sizes that a stand-in computed first."""
    slowest = 1e3 * max(seconds for form in forms for name, seconds in _best(form).items() if "first on" in name)
    return (
        "A size that wants another kernel runs on one that is compiled already, and the best one is compiled on a"
        " thread. The last column is when the best one ran at the latest, after the first call of a size; the call that"
        f" it first ran in took {slowest:.0f} ms at most, the trial of a kernel that is new on the device among it."
        " What is asked to repeat to the bit waits for the best kernel."
    )


def _best(form: dict[str, Any]) -> dict[str, float]:
    """Of a process with nothing compiled: what was measured of best kernels that others stood in for."""
    return {name: seconds for name, seconds in form["nothing compiled"].items() if "best kernel" in name}


def _latest(form: dict[str, Any]) -> float | None:
    return max((seconds for name, seconds in _best(form).items() if name.endswith("after")), default=None)


def _seconds(form: dict[str, Any]) -> list[float | None]:
    cold, warm = form["nothing compiled"], form["warm disk"]
    calls, steps = "a call, first", "a step of training, first"
    others = [seconds for name, seconds in cold.items() if name.endswith(OTHERS)]
    return [cold[calls], warm[calls], cold.get(steps), warm.get(steps), max(others)]


if __name__ == "__main__":
    made = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(made), encoding="utf-8")
