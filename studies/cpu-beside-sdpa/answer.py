"""answer.md of this study, from its results.

python studies/cpu-beside-sdpa/answer.py
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
GOAL = 0.97
QUIET = 0.05

_TEXT = """# Is attention() on a CPU ever slower than scaled_dot_product_attention?

**Prediction** (written before this study first ran, after single forms had been timed while the rule was made).
Where the rule of `kernels/cpu/library.py` expects PyTorch's own attention to
be done first, it is called, and what is left of a difference is Python's way there: a few microseconds. So ratios are
at least {goal} wherever PyTorch needs some 200 microseconds or more, and lower below that, down to about a half for one
token. Gradients cost one look at the log-sum-exp more, because next to a large one PyTorch's are wrong.

**Prediction for short calls without a look-up** (from their pieces, timed one by one, before all forms were). Whatever
is asked of a tensor takes 0.1 us in a loop of its own, and 0.5 to 2 us after a kernel on two threads, which leaves
nothing of Python in the caches. A short call asks for the bytes of keys and of values, whether gradients are on, and
whether a transform or a compiler watches: 4 us. With gradients the log-sum-exp is read: 25 us. So {goal} does not hold
below some 130 us without gradients and 800 us with them.

**Prediction for one look-up in front of everything** (before all forms were measured with it, from single forms beside
other work, where the way there went from 50 to 10 us with gradients). Masks, groups, growing caches, windows and steps
are found by one key of a dictionary in `attention()` itself, and gradients are PyTorch's own, without a look at the
log-sum-exp. A transform is asked for by a function of C instead of one of pybind11, which took 3 us where caches are
cold. So the way there is 3 us without gradients and 6 us with them, and {goal} holds from some 100 us on without
gradients and from 200 us on with them. Windows are faster than PyTorch's boolean mask, which it converts every time.

**Prediction for the fewest questions** (before all forms were measured with it, from pieces timed one by one after a
kernel, and from 16 forms in turns with the way before, beside other work). What a call costs there is code that was not
run since the last kernel: the first size or type that is asked of a tensor takes 1 to 4 us and the same of the next one
0.3, to hand on a dropout of 0 takes 2 us, and to ask whether a transform is active 4; tests of local variables take
nothing. So shapes of all three tensors are compared with those of the last call, transforms are left to PyTorch's
function, which has rules for them, and only options that say something are handed on. In these 16 forms the way there
then costs 3.7 us more than a bare function in the median, and 6.2 before; 0.97 is expected from some 150 us on without
gradients and from 250 us on with them.

**Tried and taken out**: one question about all tensors. A call like the last one was told by a guard of
`torch.compile`, which compares types, sizes, strides and who watches of all tensors in one call, and went to the kernel
that PyTorch's function had chosen for it. Predicted were some 600 of all forms at {goal}. Beside the way before, both
on one thread by processor time and beside other work: 410 forms and 407; 2.7 us more than a bare function and 2.5
without gradients, 9.6 and 8.4 with them. Groups gained (1.7 and 4.3), steps with masks lost (12 to 13 and 9 to 10).
That is not worth functions that PyTorch does not promise. PyTorch's function beside itself was at {goal} in 812 of the
867 forms and clearly below it in one: the rest of what is missed is no noise of the method (`tried.json`).

**Prediction for keys and a type alone** (before all forms were measured with it, from pieces and some 30 forms on one
thread by processor time, beside other work). With gradients a short call was known by eight things, among them three
shapes, and is by the shape of its keys, which is that of its values, and its type. A mask that layers share is asked
for its device and type once. Groups compare shapes instead of cutting a part out of one. What a question takes there:
the bytes of keys and of values 1.2 us, their shapes 1.7, `size(-2)` of both 2.5, a type 0.7, whether autocast is on
1.0, whether a compiler traces 0.1 to 0.5. So autocast is not asked for where all types are fast, the compiler still is,
for what hides a call from it is not promised by PyTorch; and that there are queries at all, 0.8 us, has to be asked:
beside none PyTorch's function gives values no gradient. Predicted: 5.5 us more than a bare function with gradients and
2.3 without, where it was 8.4 and 2.5 by this method (`tried.json`); groups 3 in place of 5 to 10; some 450 of all forms
at {goal}, 407 before.

**Prediction for the least that is safe** (before it was measured in more than 30 forms). A function that looks at its
options and compares the bytes of keys and of values, which is the one check without which PyTorch's function reads past
the end of values, hands on fewer options than a bare one and so takes about as long, 0.5 us more in groups. It reaches
{goal} in some 680 forms; attention() is clearly below in some 170 of those. It is a floor and no substitute: it asks
neither for the device of a mask nor for what it adds to rows, and an only key has gradients that are not zero.

**What came of these two**, measured in all forms at commit 99198b68ca11 beside the way before them: 458 forms at {goal}
and 441 before, 324 and 340 clearly below. Masks and groups without gradients gained 1.7 us in the median; the
prediction for steps is refuted, to know them by keys and type alone gained nothing, and it was taken out again. The
safe floor was predicted too high as well: it is at {goal} in 625 forms, and a function that only hands on what it is
given in 705.

**Prediction for a compiled front** (before all forms were measured with it; from pieces, and from some 80 forms of one
and of 16 tokens). No Python in front of PyTorch's function reaches {goal} in the shortest calls, so `attention()`
becomes a function in C: it reads shapes and types where PyTorch keeps them, looks the form up in a table that the
function in Python fills, and hands on the very tuple and dictionary that it was called with. Predicted before the first
line of it: 0.15 us more than PyTorch's function in a loop of its own and 0.3 to 0.5 after a kernel, so {goal} from some
15 us on, and nearly all forms. Seen in those 80 forms, on a machine that others used: 0.1 and 0.3 to 0.6 us, and the
shortest calls, of 11 us, on the edge: 0.967 to 0.98. So predicted for all forms: at least 800 of 867 at {goal}, where
what is missed are medians that scatter around it, of calls below 25 us and of steps; clearly below it at most 20, among
them forms of one token under inference mode, and steps beside an only key, whose gradients are exact by another scale.

**Measured** (`results.json`, made by `run.py`{quick} of commit {commit}):
PyTorch {torch} on {threads} {machine} threads ({capability}),
all in alternating order in one process, medians of the ratios of {least} to {most} rounds, {date}. A form is sampled
for a quarter of a second, and for six rounds at least. Of {count} forms
{met} are at least {goal}; of those where PyTorch takes 100 microseconds or longer, {some_met} of {some_count}, and of
those where it takes 200 or longer, {long_met} of {long_count}. Clearly below {goal}, by the upper end of the 95 %
confidence interval of the median, are {below} of all, {some_below} from 100 microseconds on and {long_below} from 200
on. {holds}
{busy}{bare}{safe}{before}{itself}
| what | forms | by PyTorch | least ratio | median ratio | least where PyTorch takes 200 us or more |
|---|---:|---:|---:|---:|---:|
{rows}

The lowest ratios where PyTorch takes 200 us or more:

| form | ours, us | PyTorch, us | ratio | runs |
|---|---:|---:|---:|---|
{lowest}

And how many microseconds the way there costs where PyTorch's own attention runs and takes less than 200 us: {extra:.1f}
in the median without gradients, {extra_step:.1f} with them.
"""

_PROCESSOR = """
Times are those of the processor on one thread, for others used the machine: waiting for other threads is not in them.
{load}"""
_LOAD = """The load was {middle:.1f} in the median of forms and {most:.1f} at most.
"""
_BUSY = """
This is a short run on a machine that others used at the same time, with few rounds a form: its single ratios are not to
be relied on.
"""
_PATIENT = """
Others used the machine at times. A form was measured again where they took more than a twentieth of the processors
meanwhile, and the least disturbed of some tries counts; it was disturbed still in {disturbed} of {count} forms.
"""
_BARE = """
A function of Python that only hands on what it is given to PyTorch's is the floor: it takes {floor:.1f} us more
than PyTorch's in the median of forms below 200 us without gradients, so that it is at least {goal} of it from some
{least:.0f} us on. Beside this function {met} of {count} forms are at least {goal}, and {some_met} of {some_count} where
PyTorch takes 100 us or more. It reaches {goal} itself in {reached} of all forms, clearly misses it in {missed}, and
attention() is clearly below {goal} in {below} of those that it reaches. Where PyTorch takes less than 500 us,
attention() takes {more} than this function in the median without gradients, and {step_more} with them.
"""
_SAFE = """
The least that is safe, a function that looks at its options and compares the bytes of keys and of values, takes
{less} us more than PyTorch's function in the median without gradients where that takes less than 500 us, and
{step_less} us with them (the bare function {bare} and {step_bare}). It reaches {goal} in {reached} of {count} forms and
clearly misses it in {missed}, which are out of reach for Python in front of PyTorch's function. Of the forms that it
reaches, attention() misses {goal} in {open}, in {below} of them clearly; attention() takes {more} in the median
without gradients and {step_more} with them.
"""

_BEFORE = """
The way before, of commit {commit}, which is all in Python, was measured in all these forms by the same method on the
same machine, but not at the same time (`before.json`): it is at least {goal} in {old_met} forms and clearly below in
{old_below}, and attention() now in {met} and {below}.
What both take longer than the bare function in the median, where PyTorch takes less than 500 us:

| | before, us | now, us |
|---|---:|---:|
{rows}
"""

_AGAIN = """
Sampled again for 1.6 s each by the same method, when less else ran (a load of {load:.1f} in the median; `again.json`,
made by `run.py --missed --processor-time` of commit {commit}), {met} of these {count} forms are at least {goal}, and
the least is at {least:.3f}.
"""

_ITSELF = """
PyTorch's function beside itself, called once more in every round, is the noise of the method: it is at least {goal} in
{met} of {count} forms, and clearly below in {below}. attention() is at least {goal} in {ours} and clearly below in
{ours_below}: predicted were at least 800 and at most 20. Of the {missed} medians that are missed, {steps} are of steps,
and {alone} of these beside an only key, whose gradients are made exact by another scale: there attention() takes
{alone_more:.1f} us more than PyTorch's function in the median, and {more:.1f} in other steps, where that takes less
than 500 us.
"""


def answer(results: dict[str, Any]) -> str:
    """The text, every number of it from the results."""
    every = results["results"]
    counts = [len(each["sdpa_us"]) for each in every]
    some, long = _from(every, 100), _from(every, 200)
    return _TEXT.format(
        goal=GOAL, torch=results["torch"], threads=results["threads"], machine=results["machine"],
        capability=results["capability"], date=results["provenance"]["date"], least=min(counts), most=max(counts),
        commit=results["provenance"]["commit"],
        busy=_processor(every) if results.get("processor_time") else _BUSY if results["quick"] else _patient(every),
        bare=_bare(every), safe=_safe(every), before=_before(every),
        itself=_itself(every) + _again(), holds=_holds(every),
        quick=" --quick" if results["quick"] else "", count=len(every), met=_met(every), some_met=_met(some),
        below=_below(every), some_below=_below(some), long_below=_below(long),
        some_count=len(some), long_met=_met(long), long_count=len(long), rows="\n".join(_rows(every)),
        lowest="\n".join(_lowest(long)),
        extra=_extra(every, "attenio_us", step=False), extra_step=_extra(every, "attenio_us", step=True),
    )  # fmt: skip


def _from(every: list[dict[str, Any]], least_us: float) -> list[dict[str, Any]]:
    return [each for each in every if median(each["sdpa_us"]) >= least_us]


def _holds(every: list[dict[str, Any]]) -> str:
    """From which time of PyTorch's on the goal holds for all forms, without gradients and with them."""
    found = []
    for step, name in ((False, "without gradients"), (True, "with gradients")):
        mine = [each for each in every if (each["point"]["way"] == "step") == step]
        last = max((median(each["sdpa_us"]) for each in mine if each["ratio_high"] < GOAL), default=0.0)
        above = sum(median(each["sdpa_us"]) > last for each in mine)
        found.append(f"{name} for all of more than {last:,.0f} us ({above} of {len(mine)})")
    return f"In order of PyTorch's time,\nnone is clearly below it: {', and '.join(found)}."


def _bare(every: list[dict[str, Any]]) -> str:
    """What a function of Python costs by itself, where that was measured."""
    if not all("bare_us" in each for each in every):
        return ""
    some, floor = _from(every, 100), _extra(every, "bare_us", step=False)
    floors = [median(_ratios(each, "bare_us")) >= GOAL for each in every]
    return _BARE.format(
        floor=floor, goal=GOAL, least=max(0.0, floor) / (1 / GOAL - 1), count=len(every), some_count=len(some),
        met=_met(every, "ratio_to_bare"), some_met=_met(some, "ratio_to_bare"),
        reached=sum(floors), missed=sum(map(_misses, every)),
        below=_below([each for each, floor in zip(every, floors, strict=True) if floor]),
        step_more=_more_or_less(_over(every, "attenio_us", "bare_us", step=True)),
        more=_more_or_less(_over(every, "attenio_us", "bare_us", step=False)),
    )  # fmt: skip


def _safe(every: list[dict[str, Any]]) -> str:
    """What a function of Python costs that does no more than is safe, where that was measured."""
    if not all("safe_us" in each for each in every):
        return ""
    reached = [each for each in every if median(_ratios(each, "safe_us")) >= GOAL]
    texts = {"more": _more_or_less, "step_more": _more_or_less}
    more = {
        name: texts.get(name, "{:.1f}".format)(_over(every, whose, beside, step=step))
        for name, whose, beside, step in (
            ("less", "safe_us", "sdpa_us", False), ("step_less", "safe_us", "sdpa_us", True),
            ("bare", "bare_us", "sdpa_us", False), ("step_bare", "bare_us", "sdpa_us", True),
            ("more", "attenio_us", "safe_us", False), ("step_more", "attenio_us", "safe_us", True),
        )
    }  # fmt: skip
    return _SAFE.format(
        goal=GOAL, count=len(every), reached=len(reached), missed=sum(_misses(each, "safe_us") for each in every),
        open=len(reached) - _met(reached), below=_below(reached), **more,
    )  # fmt: skip


def _before(every: list[dict[str, Any]]) -> str:
    """The way before beside this one, where both were measured at the same time."""
    before = json.loads((HERE / "before.json").read_text(encoding="utf-8"))
    known = {each["name"]: each for each in before["results"]}
    if set(known) != {each["name"] for each in every}:
        return ""  # results of other forms than those that it was measured in
    short = [each for each in every if median(each["sdpa_us"]) < 500]
    rows = []
    for step, way in ((False, "without gradients"), (True, "with gradients")):
        for kinds in (None, ("dense", "causal", "cross"), ("boolean", "float"), ("groups",), ("decode", "growing")):
            some = [each for each in short if (each["point"]["way"] == "step") == step]
            some = [each for each in some if kinds is None or each["point"]["kind"] in kinds]
            old = median(known[each["name"]]["over_bare_us"] for each in some)
            new = _over(some, "attenio_us", "bare_us", step=step)
            rows.append(f"| {', '.join(kinds or ('all',))}, {way} ({len(some)}) | {old:.1f} | {new:.1f} |")
    return _BEFORE.format(
        goal=GOAL, commit=before["provenance"]["commit"], met=_met(every), below=_below(every),
        old_met=_met(before["results"]), old_below=_below(before["results"]), rows="\n".join(rows),
    )  # fmt: skip


def _processor(every: list[dict[str, Any]]) -> str:
    """That others used the machine, and how much where that was written down."""
    loads = [each["load"] for each in every if "load" in each]
    return _PROCESSOR.format(load=_LOAD.format(middle=median(loads), most=max(loads)) if loads else "")


def _patient(every: list[dict[str, Any]]) -> str:
    """How quiet it was, where that was measured."""
    if not any("others" in each for each in every):
        return ""
    return _PATIENT.format(disturbed=sum(each.get("others", 0.0) > QUIET for each in every), count=len(every))


def _itself(every: list[dict[str, Any]]) -> str:
    """What is missed by chance, where that was measured."""
    if not all("again_us" in each for each in every):
        return ""
    met = sum(median(_ratios(each, "again_us")) >= GOAL for each in every)
    missed = [each for each in every if each["ratio"] < GOAL]
    return _ITSELF.format(
        goal=GOAL, met=met, count=len(every), below=sum(_misses(each, "again_us") for each in every),
        ours=_met(every), ours_below=_below(every), missed=len(missed),
        steps=sum(each["point"]["way"] == "step" for each in missed), alone=sum(map(_has_an_only_key, missed)),
        alone_more=_over([each for each in every if _has_an_only_key(each)], "attenio_us", "sdpa_us", step=True),
        more=_over([each for each in every if _has_other_keys(each)], "attenio_us", "sdpa_us", step=True),
    )  # fmt: skip


def _again() -> str:
    """What forms below the goal are when they are sampled for longer, where they were."""
    file = HERE / "again.json"
    if not file.exists():
        return ""
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = found["results"]
    return _AGAIN.format(
        goal=GOAL, count=len(rows), commit=found["provenance"]["commit"], least=min(each["ratio"] for each in rows),
        met=sum(each["ratio"] >= GOAL for each in rows), load=median(each["load"] for each in rows),
    )  # fmt: skip


def _has_an_only_key(each: dict[str, Any]) -> bool:
    """Whether it is a step beside an only key; a window has a mask of its own."""
    return _is_step_without_window(each) and each["point"]["n"] == 1 and each["point"]["kind"] != "cross"


def _has_other_keys(each: dict[str, Any]) -> bool:
    return _is_step_without_window(each) and not _has_an_only_key(each)


def _is_step_without_window(each: dict[str, Any]) -> bool:
    return each["point"]["way"] == "step" and not each["point"]["kind"].startswith("window")


def _ratios(each: dict[str, Any], whose: str) -> list[float]:
    return sorted(theirs / other for theirs, other in zip(each["sdpa_us"], each[whose], strict=True) if other > 0.0)


def _misses(each: dict[str, Any], whose: str = "bare_us") -> bool:
    """Whether the bare function, or another one, is clearly below the goal, by the sign test of ``run.py``."""
    ratios = _ratios(each, whose)
    return ratios[min(len(ratios) - 1, int(len(ratios) / 2 + 1.96 * len(ratios) ** 0.5 / 2))] < GOAL


def _over(every: list[dict[str, Any]], whose: str, beside: str, *, step: bool) -> float:
    """How many microseconds one takes more than another, round by round, in the median of short forms."""
    return median(
        median(ours - theirs for ours, theirs in zip(each[whose], each[beside], strict=True))
        for each in every
        if (each["point"]["way"] == "step") == step and median(each["sdpa_us"]) < 500
    )


def _more_or_less(us: float) -> str:
    return f"{abs(us):.1f} us {'less' if us < 0 else 'more'}"


def _met(some: list[dict[str, Any]], ratio: str = "ratio") -> int:
    return sum(each[ratio] >= GOAL for each in some)


def _below(some: list[dict[str, Any]]) -> int:
    return sum(each["ratio_high"] < GOAL for each in some)


def _rows(every: list[dict[str, Any]]) -> list[str]:
    groups = defaultdict(list)
    for each in every:
        point = each["point"]
        groups[f"{point['kind']}, {point['dtype']}, {'step' if point['way'] == 'step' else 'forward'}"].append(each)
    lines = []
    for name, some in groups.items():
        ratios = [each["ratio"] for each in some]
        long = [each["ratio"] for each in some if median(each["sdpa_us"]) >= 200]
        theirs = sum("scaled_dot_product" in each["runs"] for each in some)
        numbers = f"{len(some)} | {theirs} | {min(ratios):.2f} | {median(ratios):.2f}"
        lines.append(f"| {name} | {numbers} | {f'{min(long):.2f}' if long else ''} |")
    return lines


def _lowest(some: list[dict[str, Any]]) -> list[str]:
    worst = sorted(some, key=lambda each: each["ratio"])[:12]
    return [
        f"| {each['name']} | {median(each['attenio_us']):.0f} | {median(each['sdpa_us']):.0f} | {each['ratio']:.2f} |"
        f" {each['runs']} |"
        for each in worst
    ]


def _extra(every: list[dict[str, Any]], whose: str, *, step: bool) -> float:
    found = [
        median(each[whose]) - median(each["sdpa_us"])
        for each in every
        if (each["point"]["way"] == "step") == step
        and "scaled_dot_product" in each["runs"]
        and median(each["sdpa_us"]) < 200
    ]
    return median(found) if found else float("nan")


def main() -> None:
    """Write answer.md beside this file."""
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "answer.md").write_text(answer(results), encoding="utf-8")


if __name__ == "__main__":
    main()
