"""A line chart with logarithmic axes as one SVG, for the pictures beside studies.

>>> chart = LineChart(title="words", x_title="memory", y_title="moved")
>>> "<svg" in chart.svg([Series("attenio", [1, 10], [100, 10], "#0072b2")])
True
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from attenio.errors import InvalidInput
from attenio.report.notation import short_count

_WIDTH, _HEIGHT = 860, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 230, 50, 60


@dataclass(frozen=True)
class Series:
    """One line; a None in ``y`` breaks it."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """Titles of a chart; both axes are logarithmic."""

    title: str
    x_title: str
    y_title: str

    def svg(
        self,
        series: Sequence[Series],
        *,
        marks: Sequence[tuple[float, str]] = (),
        points: Sequence[tuple[float, float, str]] = (),
    ) -> str:
        """The chart with its lines, a legend, vertical marks at some x, and points, each with its text."""
        xs = [*(x for line in series for x in line.x), *(point[0] for point in points)]
        ys = [*(y for line in series for y in line.y if y is not None), *(point[1] for point in points)]
        if not xs or not ys or min(*xs, *ys) <= 0:
            raise InvalidInput("a chart with logarithmic axes needs positive numbers; there are none, or some are not")
        frame = _Frame(min(xs), max(xs), min(ys) / 1.2, max(ys) * 1.2)
        parts = [*frame.grid(), *(frame.line(line) for line in series), *(frame.mark(*mark) for mark in marks)]
        parts += [frame.point(*point) for point in points]
        parts += [_legend(number, line) for number, line in enumerate(series)]
        middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
        texts = [
            f'<text x="20" y="28" font-size="15">{html.escape(self.title)}</text>',
            f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">{html.escape(self.x_title)}</text>',
            f'<text transform="translate(20 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
            f"{html.escape(self.y_title)}</text>",
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
            f' font-size="13"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>{"".join(texts + parts)}</svg>\n'
        )


@dataclass(frozen=True)
class _Frame:
    """Where numbers lie on the picture."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """How far from the left."""
        share = math.log(value / self.x_low) / max(math.log(self.x_high / self.x_low), 1e-9)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """How far from the top."""
        share = math.log(value / self.y_low) / math.log(self.y_high / self.y_low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> list[str]:
        """Thin lines at powers of two along x and of ten along y, with their numbers; on a short axis more."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        powers = range(math.ceil(math.log2(self.x_low)), math.floor(math.log2(self.x_high)) + 1)
        along = [(2.0**power, short_count(2.0**power)) for power in powers]
        for value, text in along if len(along) > 1 else _few_numbers(self.x_low, self.x_high):
            x = self.x(value)
            parts.append(f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#ddd"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
        for value, text in self._numbers():
            y = self.y(value)
            parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        return parts

    def _numbers(self) -> list[tuple[float, str]]:
        """Numbers along y, and how they are written."""
        powers = range(math.ceil(math.log10(self.y_low)), math.floor(math.log10(self.y_high)) + 1)
        if len(powers) > 2:
            return [(10.0**power, f"1e{power}") for power in powers]
        return _few_numbers(self.y_low, self.y_high)

    def line(self, series: Series) -> str:
        """One line, broken where a number is missing."""
        path, pen_up = [], True
        for x, y in zip(series.x, series.y, strict=True):
            if y is None:
                pen_up = True
                continue
            path.append(f"{'M' if pen_up else 'L'}{self.x(x):.1f} {self.y(y):.1f}")
            pen_up = False
        dash = ' stroke-dasharray="6 4"' if series.dashed else ""
        return f'<path d="{"".join(path)}" fill="none" stroke="{series.colour}" stroke-width="2"{dash}/>'

    def mark(self, value: float, text: str) -> str:
        """A vertical line with its text at the top."""
        x = self.x(value)
        return (
            f'<path d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#444" stroke-dasharray="2 3"/>'
            f'<text x="{x + 4:.1f}" y="{_TOP + 12}">{html.escape(text)}</text>'
        )

    def point(self, x: float, y: float, text: str) -> str:
        """A ring with its text beside it."""
        across, down = self.x(x), self.y(y)
        return (
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="6" fill="white" stroke="black" stroke-width="2.5"/>'
            f'<text x="{across + 10:.1f}" y="{down - 8:.1f}" font-weight="bold">{html.escape(text)}</text>'
        )


def _few_numbers(low: float, high: float) -> list[tuple[float, str]]:
    """Numbers along an axis that has hardly a power in it: ones, twos and fives, or as many digits as give three."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), [step / 100 for step in range(100, 1000, 5)]):
        shown = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(shown) > 2:
            break
    return [(value, f"{value:,.6g}") for value in shown[:: -(-len(shown) // 8) or 1]]


def _legend(number: int, series: Series) -> str:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 10 + 20 * number
    dash = ' stroke-dasharray="6 4"' if series.dashed else ""
    return (
        f'<path d="M{x} {y}h24" stroke="{series.colour}" stroke-width="2"{dash}/>'
        f'<text x="{x + 30}" y="{y + 4}">{html.escape(series.name)}</text>'
    )
