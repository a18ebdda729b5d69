"""The answer of the study, from its results."""

from math import log
from statistics import median
from typing import Any

# (45 / 7)^x = 2,804 / 199, the same MAC in two processes; as attenio.accelerator.rtl.area has it
EXPONENT = log(2804 / 199) / log(45 / 7)
WANTED = 200
TABLE_3_MM2 = {"PE array": 2.44, "EXP unit": 0.48, "KV buffer": 0.01}
COMPONENTS = {"PE array": ("mac", "mac_line"), "EXP unit": ("exp_module",), "KV buffer": ("key_block",)}


def answer(results: dict[str, Any]) -> str:
    """The whole text."""
    parts = [
        "# Is the hardware equal to the simulator, how large is it, how fast?",
        machines(results["machines"]),
        published(results["published"]),
        areas(results["areas"]),
    ]
    return "\n\n".join(parts) + "\n"


def machines(cases: list[dict[str, Any]]) -> str:
    """Random machines."""
    equal = [case for case in cases if case["steps_equal"] and case["words_equal"]]
    totals = {name: sum(case[name] for case in cases) for name in ("steps", "words", "cycles")}
    masks = sorted({case["mask"].partition(":")[0] for case in cases})
    times = {name: median(case["seconds"][name] for case in cases) for name in ("elaborate", "compile", "run")}
    least, most = (choose(case["pe_lines"] * case["macs_per_line"] for case in cases) for choose in (min, max))
    drawn = f"{len(cases)} random machines of {least} to {most} MACs, masks {', '.join(masks)}"
    rest = "" if len(cases) >= WANTED else f" `machines.py` draws {WANTED} and goes on where it was stopped."
    compared = f"{totals['steps']:,} steps, {totals['words']:,} words, {totals['cycles']:,} cycles"
    took = f"{times['elaborate']:.1f} s to elaborate, {times['compile']:.1f} s to compile, {times['run']:.2f} s to run"
    lines = [
        "## Random machines",
        f"{drawn}: {len(equal)} are equal to the simulator and the functional model in every step and every word,"
        f" {compared} together.{rest}",
        f"Medians, on two cores that many shared: {took}.",
    ]
    return "\n\n".join(lines)


def published(found: dict[str, Any] | None) -> str:
    """The published array."""
    if found is None:
        return "## The published array\n\nNot run yet: `published.py` builds it."
    all_equal = "are equal" if found["steps_equal"] and found["words_equal"] else "are NOT all equal"
    seconds = found["seconds"]
    return (
        "## The published array\n\n"
        f"64 lines of 32 MACs, {found['workload']}: {found['cycles']:,} cycles, {found['steps']:,} steps and"
        f" {found['words']:,} words {all_equal}. {seconds['elaborate']:.0f} s to elaborate,"
        f" {seconds['compile']:.0f} s to compile, {found['cycles_per_second']:,} cycles a second."
    )


def areas(found: dict[str, Any] | None) -> str:
    """Areas and paths."""
    if found is None:
        return "## Areas\n\nNot measured yet: `areas.py` takes a liberty."
    known = found["parts"]
    lines = [
        f"## Areas and paths, {found['library']}, 45 nm, before layout",
        "| part | µm² | times | longest path (ns) | clock (MHz) |\n|---|--:|--:|--:|--:|\n"
        + "\n".join(
            f"| {name} | {part['area_um2']:,.0f} | {part['times'] or '':,} | {part['path_ps'] / 1000:.2f}"
            f" | {1e6 / part['path_ps']:,.0f} |"
            if part["times"]
            else f"| {name} | {part['area_um2']:,.0f} | in a part | {part['path_ps'] / 1000:.2f}"
            f" | {1e6 / part['path_ps']:,.0f} |"
            for name, part in known.items()
        ),
    ]
    rows = []
    for component, names in COMPONENTS.items():
        if all(name in known for name in names):
            mm2 = sum(known[name]["area_um2"] * known[name]["times"] for name in names) / 1e6
            at_22 = mm2 * (22 / 45) ** EXPONENT
            theirs = TABLE_3_MM2[component]
            rows.append(f"| {component} | {mm2:.4f} | {at_22:.4f} | {theirs:.2f} | {at_22 / theirs - 1:+.0%} |")
    if rows:
        head = "| component | mm² at 45 nm | scaled to 22 nm | table 3 | difference |\n|---|--:|--:|--:|--:|\n"
        lines.append(head + "\n".join(rows))
    if {"mac", "fp16_multiply_add", "fp16_multiply", "fp16_divide"} <= known.keys():
        mac, fma, second, divide = (
            known[name]["area_um2"] for name in ("mac", "fp16_multiply_add", "fp16_multiply", "fp16_divide")
        )
        bare = (mac - second - divide) * 2048 / 1e6 * (22 / 45) ** EXPONENT
        lines.append(
            f"Of a MAC's {mac:,.0f} µm² the fused multiply-add is {fma:,.0f}, the second multiplier, which rescales"
            f" for free, {second:,.0f}, the divider, which normalises one output a cycle, {divide:,.0f}. Without these"
            f" two the array would be {bare:.2f} mm² at 22 nm. The cache is a memory and was not synthesised. Paths are"
            " to first order, without wires; a MAC has no register inside its path."
        )
    return "\n\n".join(lines)
