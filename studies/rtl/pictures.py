"""Two pictures from what was measured: the parts of the machine with their areas, and an inner iteration.

    .venv/bin/python studies/rtl/pictures.py

runs a small array in Amaranth's simulator for the second, writes iteration.json, hierarchy.svg and iteration.svg.
"""

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from answer import EXPONENT
from energy import machine

from attenio.accelerator.rtl.check import Runner, check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.tracks import spans
from attenio.workload import Workload

HERE = Path(__file__).parent
# Every part under the one that it stands in; "in a part" areas are inside that of the part above.
TREE = (
    (0, "pe_array", "64 lines"),
    (1, "mac_line", "wires, rows and masks of 32 MACs"),
    (1, "mac", "accumulator and statistics"),
    (2, "fp16_multiply_add", ""),
    (2, "fp16_multiply", "rescales"),
    (2, "fp16_divide", "normalises"),
    (2, "fp16_maximum", "two of them"),
    (0, "exp_unit", "128 modules"),
    (1, "exp_module", "subtract, register, exponentiate"),
    (2, "fp16_add", ""),
    (2, "fp16_exponential", "32 chords"),
    (0, "key_block", "and one for a value: the KV buffer"),
    (0, "controller", "three sequencers"),
    (0, "array_control", ""),
    (0, "exp_control", ""),
    (0, "hbm_port", "transfers; its buffers are the memory's"),
    (0, "query_bank, output_bank", "128 memories of 64 words of 512 bits, not synthesised"),
)
COLOURS = {"HBM": "#4477aa", "PE array": "#228833", "EXP unit": "#aa3377"}
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img"'
    ' font-family="sans-serif" font-size="13"><title>{2}</title><rect width="100%" height="100%" fill="white"/>'
)


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def hierarchy(parts: dict[str, Any]) -> str:
    """A row a part: how often, mm2 at 22 nm of all of them, a bar."""
    sizes = {name: part["area_um2"] / 1e6 * (22 / 45) ** EXPONENT for name, part in parts.items()}
    often = {name: part["times"] for name, part in parts.items()}
    often |= dict.fromkeys(("fp16_multiply_add", "fp16_multiply", "fp16_divide"), often["mac"])
    often |= {"fp16_maximum": 2 * often["mac"]} | dict.fromkeys(("fp16_add", "fp16_exponential"), often["exp_module"])
    totals = {name: size * often[name] for name, size in sizes.items()}
    room = 650 + 7 * max(len(about) for _, _, about in TREE)
    lines = [HEAD.format(room, 60 + 24 * len(TREE), "Parts of the accelerator and their areas")]
    lines.append(
        text(10, 22, "Parts of the published machine: how often, and mm² of all of them at 22 nm, before layout")
    )
    for row, (depth, name, about) in enumerate(TREE):
        y = 50 + 24 * row
        times = f" × {often[name]:,}" if often.get(name, 1) > 1 else ""
        lines.append(text(10 + 22 * depth, y, name + times, 'font-weight="bold"' if depth == 0 else ""))
        if name in totals:
            width = max(1.0, 260 * totals[name] / max(totals.values()))
            look = f'height="13" fill="#228833" opacity="{1 - 0.3 * depth:.1f}"'
            lines.append(f'<rect x="290" y="{y - 11}" width="{width:.1f}" {look}/>')
            lines.append(text(560, y, f"{totals[name]:.4f}"))
        lines.append(text(630, y, about, 'fill="#555"'))
    return "\n".join([*lines, "</svg>"]) + "\n"


def iteration(found: dict[str, Any]) -> str:
    """Three engines, each as hardware and as simulated, over the cycles of one key."""
    begin, end = found["begin"], found["end"]
    scale = 740 / (end - begin)
    lines = [HEAD.format(900, 250, "One inner iteration, hardware beside simulator")]
    lines.append(text(10, 22, f"One key on four MACs, d = 8: cycles {begin} to {end}, hardware above simulator"))
    for row, engine in enumerate(COLOURS):
        for half, which in enumerate(("rtl", "simulated")):
            y = 40 + 64 * row + 26 * half
            lines.append(text(10, y + 15, f"{engine} {'RTL' if half == 0 else 'simulator'}"))
            for step in found[which]:
                if step["engine"] == engine and step["begin"] < end and step["end"] > begin:
                    first, last = max(step["begin"], begin), min(step["end"], end)
                    x, width = 150 + scale * (first - begin), scale * (last - first)
                    lines.append(
                        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="22" fill="{COLOURS[engine]}"'
                        f' stroke="white" opacity="{1 - 0.35 * half}"><title>{escape(step["name"])} {step["begin"]}-'
                        f"{step['end']}</title></rect>"
                    )
                    if width > 7 * len(step["name"]):
                        lines.append(text(x + 3, y + 15, step["name"], 'fill="white" font-size="12"'))
    return "\n".join([*lines, "</svg>"]) + "\n"


def one_iteration() -> dict[str, Any]:
    """The steps of a run of the hardware and of the simulator, and where the second key of a tile begins and ends."""
    design = Design.of(Workload(queries=4, keys=3, d=8), machine())
    run = check(design, runner=Runner.PYSIM)
    assert run.steps_equal and run.words_equal
    simulated = [
        {"engine": span.engine.value, "name": span.name, "begin": int(span.begin), "end": int(span.end)}
        for span in spans(design.program)
    ]
    rtl = [vars(step) for step in run.timeline]
    scores = [step for step in simulated if step["name"] == "scores"]
    return {"begin": scores[1]["begin"], "end": scores[2]["begin"], "rtl": rtl, "simulated": simulated}


def main() -> None:
    """Both pictures."""
    found = one_iteration()
    (HERE / "iteration.json").write_text(json.dumps(found) + "\n")
    (HERE / "iteration.svg").write_text(iteration(found))
    (HERE / "hierarchy.svg").write_text(hierarchy(json.loads((HERE / "areas.json").read_text())["parts"]))


if __name__ == "__main__":
    main()
