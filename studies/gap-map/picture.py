"""The map as a picture: gaps against fast memory, one panel for every direction and mask, before and after."""

from math import log
from typing import Any

from answer import before, rows_of

Row = dict[str, Any]
WIDTH, HEIGHT, MARGIN = 320, 200, 46
DIRECTIONS, MASKS = ("forward", "backward", "training"), ("dense", "causal", "window")
# Fast memory over d², and gaps, both on logarithmic axes.
LEAST, MOST, WORST = 1 / 16, 4096.0, 4.0
STYLE = (
    "text{font:11px sans-serif;fill:#333}.axis{stroke:#999;fill:none}.grid{stroke:#ddd}"
    ".old{fill:#d55e00;fill-opacity:.35}.new{fill:#0072b2;fill-opacity:.75}"
)


def picture(results: dict[str, Any]) -> str:
    old, new = rows_of(before()), rows_of(results)
    parts = []
    for down, direction in enumerate(DIRECTIONS):
        for across, mask in enumerate(MASKS):
            left, top = MARGIN + across * (WIDTH + MARGIN), 30 + down * (HEIGHT + MARGIN)
            parts.append(_panel(left, top, f"{direction}, {mask}"))
            for rows, kind in ((old, "old"), (new, "new")):
                chosen = [r for r in rows if (r["direction"], r["mask"]) == (direction, mask)]
                parts += [_dot(left, top, r, kind) for r in chosen if _shown(r)]
    width, height = MARGIN + 3 * (WIDTH + MARGIN), 30 + 3 * (HEIGHT + MARGIN)
    legend = '<text x="46" y="16">gap of the best plan against M/d²; '
    legend += '<tspan style="fill:#d55e00">before</tspan>, <tspan style="fill:#0072b2">after</tspan></text>'
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>\n<style>{STYLE}</style>\n'
    return head + legend + "\n" + "\n".join(parts) + "\n</svg>\n"


def _shown(row: Row) -> bool:
    return row["gap"] is not None and row["d"] == row["value_dim"] and row["fast_words"] >= row["d"] ** 2 / 16


def _x(left: float, squares: float) -> float:
    return left + WIDTH * log(min(squares, MOST) / LEAST) / log(MOST / LEAST)


def _y(top: float, gap: float) -> float:
    return top + HEIGHT * (1 - log(min(gap, WORST)) / log(WORST))


def _dot(left: float, top: float, row: Row, kind: str) -> str:
    x, y = _x(left, row["fast_words"] / row["d"] ** 2), _y(top, row["gap"])
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>'


def _panel(left: float, top: float, title: str) -> str:
    lines = [f'<text x="{left}" y="{top - 4}">{title}</text>']
    for gap in (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0):
        y = _y(top, gap)
        lines.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{left - 30}" y="{y + 4:.1f}">{gap:g}</text>')
    for squares in (1 / 16, 1 / 4, 1, 4, 16, 64, 256, 1024, 4096):
        lines.append(f'<text x="{_x(left, squares) - 6:.1f}" y="{top + HEIGHT + 14}">{squares:g}</text>')
    lines.append(f'<rect class="axis" x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}"/>')
    return "\n".join(lines)
