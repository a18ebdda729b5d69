"""The answer of the study, from its results."""

from collections import Counter
from math import log
from statistics import median
from typing import Any

from answer_silicon import banks, figures, loops, memories, silicon

# (45 / 7)^x = 2,804 / 199, the same MAC in two processes; as attenio.accelerator.rtl.area has it
EXPONENT = log(2804 / 199) / log(45 / 7)
WANTED = 200
# capacities with the feature size, voltages of the two processes squared
ENERGY_SCALE = 22 / 45 * (0.8 / 1.1) ** 2
# As its source has it: search/Power.cc before and after May 2020.
STA_REASON = (
    "2.3.0, built from its source, agrees within a tenth: changes cost a little more there, with slopes, leakage is the"
    " same, and the clock pins of registers cost less, as the library's tables for them, one for each state of D and Q,"
    " are weighed there and averaged here. Debian's version, 2.0.17 of 2019, takes what a cell spends inside in a rise"
    " and in a fall together for every change, and where a library tells states of other inputs apart, as for XOR and"
    " multiplexers, once more: its ratio is that. Since 2.2, of 2020, it takes the mean."
)
PICTURES = (
    "## Pictures\n\n![Parts and their areas](hierarchy.svg)\n\n![One inner iteration, hardware beside"
    " simulator](iteration.svg)"
)
TABLE_3_MM2 = {"PE array": 2.44, "EXP unit": 0.48, "KV buffer": 0.01}
COMPONENTS = {"PE array": ("mac", "mac_line"), "EXP unit": ("exp_module",), "KV buffer": ("key_block",)}


def answer(results: dict[str, Any]) -> str:
    """The whole text."""
    parts = [
        "# Is the hardware equal to the simulator, how large is it, how fast?",
        machines(results["machines"]),
        silicon(results["silicon"]),
        published(results["published"]),
        proofs(results["proofs"]),
        areas(results["areas"]),
        reasons(results["areas"]),
        loops(results["loops"]),
        memories(results["memories"]),
        banks(results["banks"], results["memories"]),
        figures(results["figures"]),
        fpga(results["fpga"]),
        clock(results["clock"]),
        energy(results["energy"]),
        PICTURES,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def machines(cases: list[dict[str, Any]]) -> str:
    """Random machines, dataflow by dataflow."""
    lines = ["## Random machines"]
    for dataflow in dict.fromkeys(case.get("dataflow", "attenio") for case in cases):
        of_it = [case for case in cases if case.get("dataflow", "attenio") == dataflow]
        lines.append(of_dataflow(dataflow, of_it))
        growing = [case for case in of_it if case.get("rounds_written_out")]
        if growing:
            rounds = sum(case["rounds_written_out"] for case in growing)
            lines[-1] += f" Steps of {len(growing)} of them grow from tile to tile, in {rounds:,} rounds."
    times = {name: median(case["seconds"][name] for case in cases) for name in ("elaborate", "compile", "run")}
    took = f"{times['elaborate']:.1f} s to elaborate, {times['compile']:.1f} s to compile, {times['run']:.2f} s to run"
    processor = median(case["seconds"]["processor"] for case in cases if "processor" in case["seconds"])
    lines.append(
        f"`machines.py` draws {WANTED} of AttenIO, or as many as asked for of any other, and goes on where it was"
        f" stopped; {len(cases)} are done. Medians, on two cores that a dozen other jobs shared: {took}, of which"
        f" {processor:.1f} s of processor time in all where that was taken."
    )
    lines.append(
        "Steps that grow from tile to tile are those of FLAT and FlashAttention-2 under a causal mask or a window,"
        " where a tile of keys or a row of scores is longer than the one before. AttenIO takes one key at a time, and"
        " standard attention multiplies whole matrices: their programs have none."
    )
    passed = Counter[str]()
    for case in cases:
        passed.update(case.get("passed", {}))
    long = passed.pop("long", 0)
    lines.append(
        f"Before a seed's machine was found, {long:,} others were drawn whose programs are long, and"
        f" {passed.total():,} that are refused: "
        + "; ".join(f'{count} times "{why.partition(";")[0].partition(":")[0]}"' for why, count in passed.most_common())
        + "."
    )
    return "\n\n".join(lines)


def of_dataflow(dataflow: str, cases: list[dict[str, Any]]) -> str:
    """The machines of one dataflow."""
    equal = [case for case in cases if case["steps_equal"] and case["words_equal"]]
    totals = {name: sum(case[name] for case in cases) for name in ("steps", "words", "cycles")}
    masks = sorted({case["mask"].partition(":")[0] for case in cases})
    least, most = (choose(case["pe_lines"] * case["macs_per_line"] for case in cases) for choose in (min, max))
    compared = f"{totals['steps']:,} steps, {totals['words']:,} words, {totals['cycles']:,} cycles"
    return (
        f"{dataflow}: {len(cases)} machines of {least} to {most} MACs, masks {', '.join(masks)}; {len(equal)} are equal"
        f" to the simulator and the functional model in every step and every word, {compared} together."
    )


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
        f" {seconds['compile']:.0f} s to compile, both on cores that many shared; {found['cycles_per_second']:,}"
        " cycles a second of processor time."
    )


def proofs(cases: list[dict[str, Any]]) -> str:
    """Proofs by induction, dataflow by dataflow."""
    if not cases:
        return "## Proofs\n\nNot run yet: `proofs.py` takes minutes a controller."
    by_dataflow = Counter(case.get("dataflow", "attenio") for case in cases)
    of_each = ", ".join(f"{count} of {name}" for name, count in by_dataflow.items())
    proven = [case for case in cases if case["proven"]]
    several = [case for case in cases if case["fills"] > 1]
    failed = [case for case in several if not case["broken_proven"]]
    steps = f"{min(case['steps'] for case in cases):,} to {max(case['steps'] for case in cases):,} steps"
    taken = sorted(case["seconds"] for case in cases)
    return (
        "## Proofs\n\n"
        f"Controllers of {len(cases)} random machines, {of_each}, programs of {steps}. Of {len(proven)} it is proven by"
        f" induction over {cases[0]['depth']} cycles that no block of what every round loads is filled before what it"
        " holds was used, nor read before it is filled, that in every cycle some engine works until all are done, and"
        f" that every engine's cycles run out. Of the {len(several)} whose blocks are filled more than once, with loads"
        f" that wait for nothing, {len(failed)} are not proven, as they should not. A proof took {taken[0]:,.0f} to"
        f" {taken[-1]:,.0f} s on cores that many shared."
    )


def reasons(found: dict[str, Any] | None) -> str:
    """Why areas differ from the published ones."""
    if found is None or "stages" not in found:
        return ""
    stages, exp = found["stages"], found["parts"]["exp_module"]
    registers = stages["registers"] * stages["register_um2"]
    own = exp["area_um2"] + registers
    whole = own * exp["times"] / 1e6 * (22 / 45) ** EXPONENT
    theirs = TABLE_3_MM2["EXP unit"]
    scaled = theirs / exp["times"] * 1e6 * (45 / 22) ** EXPONENT
    kv = found["parts"]["key_block"]
    blocks = kv["area_um2"] * kv["times"] / 1e6 * (22 / 45) ** EXPONENT
    return (
        "## Why they differ\n\n"
        f"An EXP module as built has one register, and its path is {exp['path_ps'] / 1000:.1f} ns. Cut into stages of"
        f" 1 ns it takes {stages['registers']:,} more, counted in its netlist, {registers:,.0f} µm²: the unit is"
        f" then {whole:.2f} mm² at 22 nm, without the choice of the rows that a module serves,"
        f" {1 - whole / theirs:.0%} below table 3's. One of their modules would be {scaled:,.0f} µm² at 45 nm,"
        f" {scaled - own:,.0f} more than ours. The paper does not say what its modules compute; ours have a table of 32"
        " chords and work in half precision.\n\n"
        f"Table 3 has the KV buffer to one digit, 0.01 mm²: {blocks:.4f} mm² rounds to it. The array is larger by the"
        " divider and the second multiplier, above. The cache's 0.79 mm² are"
        f" {0.79e6 / (262_144 * 16):.3f} µm² a bit: banks are below."
    )


def fpga(found: dict[str, Any] | None) -> str:
    """A small array on an FPGA."""
    if found is None:
        return ""
    return (
        f"## On an FPGA\n\n{found['macs']} MACs and {found['modules']} EXP modules with their controller on a Lattice"
        f" ECP5 85k, placed and routed: {found['luts']:,} LUTs, {found['registers']:,} registers,"
        f" {found['multipliers']} multipliers, {found['clock_mhz']:.1f} MHz, in {found['seconds']:,} s."
    )


def clock(found: dict[str, Any] | None) -> str:
    """What moves in the simulator at the clock that was measured."""
    if found is None:
        return ""
    names = [row["dataflow"] for row in found["published"]["rows"] if row["dataflow"] != "attenio"]
    names = list(dict.fromkeys(names))
    rows = []
    for about in found.values():
        cycles = {(row["n"], row["dataflow"]): row["cycles"] for row in about["rows"]}
        for n in dict.fromkeys(row["n"] for row in about["rows"]):
            speedups = [f"{cycles[n, name] / cycles[n, 'attenio']:.2f}" for name in names]
            rows.append(f"| {about['clock_hz'] / 1e6:,.0f} MHz | {n:,} | {' | '.join(speedups)} |")
    return (
        "## The paper's comparison at the measured clock\n\n"
        "The simulator's clock is a parameter of the machine file. At the clock of the multiply-add, and at that of the"
        " whole MAC, the memory is as fast as before and the array slower. AttenIO hides its memory at any clock, the"
        " others do not: its speedup over them is that much smaller.\n\n"
        f"| clock | n | over {' | over '.join(names)} |\n|--:|--:|{'--:|' * len(names)}\n" + "\n".join(rows)
    )


def energy(found: dict[str, Any] | None) -> str:
    """Energy of one run by activity."""
    if found is None:
        return "## Energy\n\nNot measured yet: `energy.py` takes a liberty."
    rows = []
    for component, part in found["parts"].items():
        at_22, simulated = part["joules"] * ENERGY_SCALE, part["simulated_joules"]
        shares = [part[name] / part["joules"] for name in ("clock", "changing", "leaking")]
        rows.append(
            f"| {component} | {part['instances']} | {part['joules'] * 1e9:.2f} |"
            f" {' | '.join(f'{share:.0%}' for share in shares)} | {at_22 * 1e9:.2f} | {simulated * 1e9:.2f} |"
            f" {at_22 / simulated:.2f} |"
        )
    wrong = sum(part["words_wrong"] for part in found["parts"].values())
    words = sum(part["words"] for part in found["parts"].values())
    return (
        "## Energy of one run, by activity\n\n"
        f"{found['workload']} on four MACs and two EXP modules, {found['cycles']:,} cycles at 1 GHz. Netlists were run"
        f" gate by gate on what the ports of every instance saw; {wrong:,} of the {words:,} words they gave are not"
        " those of the hardware.\n\n"
        "| component | parts | nJ at 45 nm | clock | changes | leakage | scaled to 22 nm | simulator (nJ) | ratio |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n" + "\n".join(rows) + "\n\n"
        f"Energy is scaled by {ENERGY_SCALE:.3f}: capacities with the feature size, and the square of 0.8 V over the"
        " library's 1.1 V. Glitches, wires and clock trees are not counted. The simulator takes seven tenths of the"
        " power that table 3 has for a part as idle, on every cycle.\n\n" + by_sta(found)
    )


def by_sta(found: dict[str, Any]) -> str:
    """The same energy by OpenSTA, version by version."""
    rows = []
    for version, parts in found["sta"].items():
        for component, told in parts.items():
            own = found["parts"][component]["joules"]
            rows.append(
                f"| {version} | {component} | {own * 1e9:.2f} | {told['joules'] * 1e9:.2f} |"
                f" {told['joules'] / own:.2f} | {told['wired_joules'] * 1e9:.2f} |"
            )
    if not rows:
        return "OpenSTA was not installed."
    return (
        "OpenSTA on the same netlists, each cell with the changes that its output had in the run:\n\n"
        "| OpenSTA | component | ours (nJ) | OpenSTA (nJ) | ratio | with the library's wires (nJ) |\n"
        "|---|---|--:|--:|--:|--:|\n" + "\n".join(rows) + "\n\n" + STA_REASON
    )


def part_row(name: str, part: dict[str, Any]) -> str:
    """A part: area, how often, paths, and the clock of the longer path that is known."""
    times = f"{part['times']:,}" if part["times"] else "in a part"
    sta = part.get("sta_path_ps")
    paths = f"{part['path_ps'] / 1000:.2f} | {'-' if sta is None else f'{sta / 1000:.2f}'}"
    return f"| {name} | {part['area_um2']:,.0f} | {times} | {paths} | {1e6 / (sta or part['path_ps']):,.0f} |"


def areas(found: dict[str, Any] | None) -> str:
    """Areas and paths."""
    if found is None:
        return "## Areas\n\nNot measured yet: `areas.py` takes a liberty."
    known = found["parts"]
    lines = [
        f"## Areas and paths, {found['library']}, 45 nm, before layout",
        "| part | µm² | times | longest path (ns) | by OpenSTA (ns) | clock (MHz) |\n|---|--:|--:|--:|--:|--:|\n"
        + "\n".join(part_row(name, part) for name, part in known.items()),
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
            f" two the array would be {bare:.2f} mm² at 22 nm. The cache is a memory and was not synthesised: banks"
            " are below. Paths are to first order, without wires, and by OpenSTA with slopes and the wires that the"
            " library expects by fan-out; a MAC has no register inside its path. No buffers are put in: the address and"
            " the enables of a KV block drive hundreds of pins each, which is its path by OpenSTA."
        )
    return "\n\n".join(lines)
