"""The part of the answer about silicon: what one accumulation a cycle takes, and what moves in the paper's figures."""

from math import log
from typing import Any

# (45 / 7)^x = 2,804 / 199 for areas, 3.3 / 1.9 for the path of an accumulation: the same MAC in two processes
AREA_EXPONENT = log(2804 / 199) / log(45 / 7)
DELAY_EXPONENT = log(3.3 / 1.9) / log(45 / 7)
AREA_SCALE, DELAY_SCALE = ((22 / 45) ** each for each in (AREA_EXPONENT, DELAY_EXPONENT))
MACS, MACS_A_LINE, TABLE_3_MM2 = 2048, 32, 2.44
ALL = ("published", "needed", "one multiplier")
BASELINES = ("flash-attention-2", "flat", "standard")

# Cells of a foundry at 22 nm: the densest and the fastest of Intel's.
CELLS_UM2 = (0.092, 0.130)


def silicon(cases: list[dict[str, Any]]) -> str:
    """Random machines of random silicon."""
    built = [case for case in cases if "refused" not in case]
    if not built:
        return ""
    equal = [case for case in built if case["steps_equal"] and case["words_equal"]]
    large = sum(case.get("refused") == "large" for case in cases)
    others = len(cases) - len(built) - large
    totals = {name: sum(case[name] for case in built) for name in ("steps", "words", "cycles")}
    return (
        "## Random machines of random silicon\n\n"
        "Adders of 1, 2 or 4 cycles, up to 4 registers that fill in MACs and in EXP modules, one multiplier or two,"
        f" dividers shared by up to 8 MACs: {len(built)} machines of AttenIO, {len(equal)} equal to the simulator and"
        f" the functional model in every step and every word, {totals['steps']:,} steps, {totals['words']:,} words,"
        f" {totals['cycles']:,} cycles together. Of the seeds in between {large} have more than 24 MACs and"
        f" {others} cannot be built."
    )


def loops(found: dict[str, Any] | None) -> str:
    """Paths of units, plain and with prefix adders, and MACs beside table 3."""
    if found is None:
        return ""
    rows = []
    for name, unit in found["units"].items():
        addend = f"{unit['addend_path_ps'] / 1000:.2f}" if "addend_path_ps" in unit else "-"
        at_22 = unit["path_ps"] / 1000 * DELAY_SCALE
        rows.append(
            f"| {name.replace('_', ' ')} | {unit['area_um2']:,.0f} | {unit['path_ps'] / 1000:.2f} | {addend} |"
            f" {at_22:.2f} |"
        )
    divider, macs = found["units"]["divide"]["area_um2"] / MACS_A_LINE, []
    for name, mac in found["macs"].items():
        own = mac["area_um2"] + (divider if "shared divider" in name else 0)
        mm2 = own * MACS / 1e6 * AREA_SCALE
        macs.append(f"| {name} | {own:,.0f} | {mac['path_ps'] / 1000:.2f} | {mm2:.2f} | {mm2 / TABLE_3_MM2 - 1:+.0%} |")
    return (
        "## What one accumulation a cycle takes\n\n"
        "Paths to first order at 45 nm; with prefix adders every adder is Kogge and Stone's. A path at 22 nm is scaled"
        f" by {DELAY_SCALE:.2f}, the power law between 3.3 ns at 45 nm and 1.9 ns at 7 nm for the same MAC.\n\n"
        "| unit | µm² | path (ns) | from the addend (ns) | at 22 nm (ns) |\n|---|--:|--:|--:|--:|\n"
        + "\n".join(rows)
        + "\n\nThe loop of an accumulation is the path from the addend: prefix adders shorten it, and neither reaches"
        " 1 ns. Sums of four cycles do, with four partial sums.\n\n"
        "| MAC | µm² | path as it stands (ns) | array at 22 nm (mm²) | beside 2.44 |\n|---|--:|--:|--:|--:|\n"
        + "\n".join(macs)
        + "\n\nA shared divider is counted in its MACs' areas, one for a line of 32. Registers of slow adders stand"
        " behind them; no tool here moves them in, so that paths are those of the logic as a whole. The published MAC"
        " is the one of the table above.\n\n"
        "So at 22 nm and 1 GHz a sum takes four cycles; a bank is a register, and the second multiplier, before the"
        " sum, three more; a subtraction takes three cycles and an exponential four, five more than the two that the"
        " pipeline has. Without the second multiplier a register is left, and another makes results come an odd number"
        " of cycles later, which banks of one port need."
    )


def memories(found: list[dict[str, Any]] | None) -> str:
    """Banks by an open compiler of memories."""
    if not found:
        return ""
    rows = []
    for bank in found:
        each = bank["um2"] / bank["words"] / bank["bits"]
        rows.append(
            f"| {bank['words']} x {bank['bits']} | {bank['ports']} | {bank['um2']:,.0f} | {each:.2f} |"
            f" {each * AREA_SCALE:.2f} |"
        )
    least = min(bank["um2"] / bank["words"] / bank["bits"] for bank in found if bank["ports"] == 1) * AREA_SCALE
    published = 0.79e6 / (262_144 * 16)
    return (
        "## Banks\n\n"
        "OpenRAM's memories for FreePDK45, whose cells are drawn by the rules of logic; one port, or one to read and"
        " one to write.\n\n"
        "| words x bits | ports | µm² | µm² a bit | at 22 nm |\n|---|--:|--:|--:|--:|\n" + "\n".join(rows) + "\n\n"
        f"The published cache has {published:.3f} µm² a bit. The smallest of these are {least / published:.0f} times"
        " that: cells by the rules of logic are three to four times as large as a foundry's, and so is what stands"
        " around them. They say how banks are drawn, and not how large a foundry's are."
    )


def banks(found: dict[str, Any] | None, drawn: list[dict[str, Any]] | None) -> str:
    """The published cache by the tool that its area is from."""
    if found is None:
        return ""
    rows, bits = [], 262_144 * 16
    for name in dict.fromkeys(each["organisation"] for each in found["banks"]):
        sizes = {each["bits"]: each["mm2"] for each in found["banks"] if each["organisation"] == name}
        rows.append(f"| {name} | {' | '.join(f'{mm2:.2f}' for mm2 in sizes.values())} |")
    widths = sorted({each["bits"] for each in found["banks"]})

    def one(name: str, width: int) -> dict[str, Any]:
        return next(each for each in found["banks"] if (each["organisation"], each["bits"]) == (name, width))

    line, ours = one("one access a cycle", 512), one("queries, and outputs in halves", 64)
    cell = ours["cells_mm2"] * 1e6 / bits
    low, high = (ours["mm2"] + bits * (each - cell) / 1e6 for each in CELLS_UM2)
    times = [
        bank["um2"] / model["um2"] for bank, model in zip(drawn or [], found["drawn"], strict=False) if model["um2"]
    ]
    more = f" The banks above are {min(times):.0f} to {max(times):.0f} times what it says for them." if times else ""
    return (
        "### The published cache, by CACTI\n\n"
        "The paper has the areas of its memories from CACTI 7. So have we: banks at 22 nm, each optimised for area, as"
        " wide as a line or in slices that hear the same address, mm² of all 512 KB.\n\n"
        f"| bits of a bank | {' | '.join(map(str, widths))} |\n|---|{'--:|' * len(widths)}\n" + "\n".join(rows) + "\n\n"
        f"One memory of 512 KB that gives 512 bits a cycle is {found['whole']['um2'] / 1e6:.2f} mm², and feeds 32 MACs."
        f" 64 banks as wide as a line, one access a cycle each, are {line['mm2']:.2f} mm²,"
        f" {line['mm2'] / 0.79 - 1:+.0%} of table 3's 0.79, and leak {line['leaking_mw']:.0f} mW, where table 3 has 163"
        " mW for the cache. So 0.79 mm² do hold banks that give each of 2,048 MACs a word in every cycle. They do"
        " not read and write in the same cycle, which updates of outputs need: as wide as a line that takes"
        f" {one('even and odd addresses apart', 512)['mm2']:.2f} mm² with even and odd addresses apart and"
        f" {one('queries, and outputs in halves', 512)['mm2']:.2f} with queries apart, too, as it is built. A bank of"
        " 512 bits and 32 or 64 rows is mostly wires and amplifiers, and slices are cheaper: the hardware as it is"
        f" built, in slices of four MACs, is **{ours['mm2']:.2f} mm²**, {ours['mm2'] / 0.79 - 1:+.0%} of table 3's, and"
        f" {one('queries, and outputs in halves', 128)['mm2']:.2f} in slices of eight.\n\n"
        f"CACTI's cell is {cell:.4f} µm², 146 squares of the feature size; those that were published at 22 nm have"
        f" {CELLS_UM2[0]} to {CELLS_UM2[1]} (C.-H. Jan et al., IEDM 2012, three cells of Intel's). With them the same"
        f" banks are {low:.2f} to {high:.2f} mm², {low / 0.79 - 1:+.0%} to {high / 0.79 - 1:+.0%}.{more} CACTI is a"
        " model: it has no assist circuits, no redundancy, no power grid, and banks of 32 rows are at the edge of what"
        " it was fitted to."
    )


def _more(silicon: dict[str, int]) -> int:
    """Cycles that a key takes beyond the published ones: scores, row sums and outputs, each as late as it comes."""
    adder, fill = silicon["adder_cycles"], silicon["fill_cycles"]
    latency, pairing = fill + adder - 1, adder - 1 + adder * (adder - 1).bit_length()
    return fill + pairing + silicon["exp_fill_cycles"] + (3 - silicon["multipliers"]) * latency + latency


def figures(found: dict[str, Any] | None) -> str:
    """The paper's figures with what silicon needs."""
    if found is None:
        return ""

    def value(case: str, figure: str, name: str, dataflow: str = "attenio", **at: Any) -> float:
        return next(
            float(row["value"])
            for row in found[case]["rows"]
            if (row["figure"], row["quantity"], row["dataflow"]) == (figure, name, dataflow)
            and all(row.get(key) == wanted for key, wanted in at.items())
        )

    rows = []
    for d in (64, 128):
        for over in BASELINES:
            cells = [value(case, "fig10", "speedup of attenio over", over, d=d, n="geomean") for case in ALL]
            rows.append((f"10: speedup over {over}, d={d}", cells, "{:.2f}"))
        for unit in ("PE array", "EXP unit"):
            cells = [value(case, "fig12", f"{unit} busy (%)", d=d, n="geomean") for case in ALL]
            rows.append((f"12: {unit} busy, d={d} (%)", cells, "{:.1f}"))
        cells = [value(case, "fig13", "memory stalls (%)", d=d, n=131072) for case in ALL]
        rows.append((f"13: memory stalls, n=128K, d={d} (%)", cells, "{:.3f}"))
        for cache in (64, 512):
            cells = [value(case, "fig14", "speedup over standard", d=d, cache_kb=cache) for case in ALL]
            rows.append((f"14: over standard, {cache} KB, d={d}", cells, "{:.2f}"))
        cells = [value(case, "fig15", "speedup over standard", d=d, n=131072) for case in ALL]
        rows.append((f"15: causal, over standard, n=128K, d={d}", cells, "{:.2f}"))
    cells = [value(case, "fig16", "whole model (s)", n=8192) for case in ALL]
    rows.append(("16: GPT-3 prefill of 8K (s)", cells, "{:.2f}"))
    for d in (64, 128):
        cells = [value(case, "fig17", "H100's floor over its time", d=d, n=131072) for case in ALL]
        rows.append((f"17: H100's floor over its time, n=128K, d={d}", cells, "{:.2f}"))
        name = "energy of flash-attention-2 over attenio's"
        cells = [value(case, "table3", name, d=d, part="chip") for case in ALL]
        rows.append((f"energy of flash-attention-2 over its, d={d}", cells, "{:.2f}"))
    table = "\n".join(f"| {name} | {' | '.join(form.format(each) for each in cells)} |" for name, cells, form in rows)
    alone = []
    for case in found:
        if case not in ALL or case == "published":
            speedups = [value(case, "fig10", "speedup of attenio over", over, d=64, n="geomean") for over in BASELINES]
            alone.append(f"| {case} | {' | '.join(f'{each:.2f}' for each in speedups)} |")
    more, scaled = (_more(found[case]["silicon"]) for case in ALL[1:])
    needed, smaller = (", ".join(f"{k} {v}" for k, v in found[case]["silicon"].items()) for case in ALL[1:])
    return (
        "## Figures 10 to 17, energy and table 3 with that silicon\n\n"
        f"Needed at 1 GHz and 22 nm: {needed}. With one multiplier: {smaller}. Figure 11 counts words, which do not"
        " move; the areas of table 3 are above.\n\n"
        "| figure | published cycles | needed | one multiplier |\n|---|--:|--:|--:|\n" + table + "\n\n"
        "Speedups of figure 10 at d=64 with each parameter alone:\n\n"
        f"| | over {' | over '.join(BASELINES)} |\n|---|--:|--:|--:|\n" + "\n".join(alone) + "\n\n"
        f"A round of AttenIO is one key, 164 cycles at d=64, and pays every fill: {more} cycles more with all that is"
        f" needed. With one multiplier it is {scaled} for fills and 64 for outputs that are scaled in cycles of their"
        " own. Small caches, whose rows many MACs share, have short rounds and lose most. A fill counts as work in"
        " figure 12, and hides loads in figure 13. FlashAttention-2 pays fills once for a tile of"
        " keys; what it pays is that outputs which many MACs share are added to in every cycle, and slow adders make"
        " them wait, at d=64 more than at d=128. Standard attention pays in the softmax of every row. So AttenIO's lead"
        " over FlashAttention-2 depends on the second multiplier, which table 3's area has no room for: without it the"
        " array is as large as published to within a quarter, and slower than FlashAttention-2's at d=128.\n\n"
        "The other dataflows' machine is built with the silicon of the published cycles only: their cycles with any"
        " other are simulated, and not compared with hardware. In a first model only partial sums of one key took turns"
        " on a slow adder, and the ratio over FlashAttention-2 was 3.67 by adders alone; that was unfair to tiles of"
        " several keys, which take turns now."
    )
