"""A timeline as a picture: a track an engine, steps in colour, waits hatched with their reason; figure 7 of AttenIO.

>>> from attenio.accelerator import simulate
>>> from attenio.catalogue import machine_named
>>> from attenio.workload import Workload
>>> done = simulate(Workload(n=4096, d=64), machine_named("attenio-512k"))
>>> [round(float(cycle)) for cycle in window(done.program)]     # three rounds, after the one that fills the pipeline
[2340, 2832]
>>> "<svg" in timeline_svg(done.program, title="AttenIO")
True
"""

import html
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

from attenio.accelerator import Engine, Program
from attenio.accelerator.timeline import DRAIN, RAMP
from attenio.accelerator.tracks import Span, tracks
from attenio.errors import InvalidInput
from attenio.quantities import show_given

_WIDTH, _LEFT, _RIGHT, _TOP = 1000, 90, 20, 56
_LANE, _GAP, _AXIS = 46, 14, 44
_ROUNDS = 3
# A picture further into a program than this many steps takes seconds to find.
_MOST_PARTS = 2_000_000
# Steps of the other engines after which one that has not begun will not begin within the picture.
_AWAITED_PARTS = 20_000
_MOST_DRAWN = 4000
# Okabe and Ito's colours, by what a step does.
_COLOURS = {
    "load Q": "#0072b2",
    "load K": "#56b4e9",
    "load V": "#009e73",
    "scores": "#e69f00",
    "outputs": "#d55e00",
    "exponentials": "#cc79a7",
    "rescaling": "#e3b2cd",
    "maxima": "#f0e442",
    "maps": "#d4c838",
    "row sums": "#b8ad2e",
    "normalise": "#a08020",
    # standard attention's
    "load QK": "#56b4e9",
    "load PV": "#009e73",
    "products": "#e69f00",
}
_OTHER = "#9a9a9a"


def window(program: Program) -> tuple[Fraction, Fraction]:
    """Cycles worth a picture: three rounds of the array, the first of a program, which fills its pipeline, left out."""
    begins: list[Fraction] = []
    first, last = "", Fraction(0)
    for part in islice(tracks(program), 10_000):
        last = max(last, part.end)
        if part.step is None or part.engine is not Engine.PE:
            continue
        first = first or part.name
        if part.name == first:
            begins.append(part.begin)
        if len(begins) > _ROUNDS + 1:
            return begins[1], part.begin
    return (begins[0] if begins else Fraction(0)), last


# Names of classes are the picture's own: a style in a page applies to all of it.
_STYLE = (
    ".t-paper{fill:#fff}.t-ink{fill:#1c1c1c}.t-black{fill:#000}.t-soft{fill:#555}.t-idle{fill:#f4f4f4}"
    ".t-stripe{stroke:#c4c4c4}.t-axis{stroke:#444}@media (prefers-color-scheme:dark){.t-paper{fill:#14171a}"
    ".t-ink{fill:#ececec}.t-soft{fill:#c4c4c4}.t-idle{fill:#1d2226}.t-stripe{stroke:#3a4047}.t-axis{stroke:#b5b5b5}}"
)


def timeline_svg(program: Program, *, title: str, begin: Fraction | None = None, cycles: Fraction | None = None) -> str:
    """The picture of some cycles; unless said otherwise three rounds of the inner loop."""
    start, stop = window(program)
    start = start if begin is None else begin
    stop = stop if begin is None and cycles is None else start + (stop - start if cycles is None else cycles)
    if stop <= start:
        raise InvalidInput(f"the picture would show {float(stop - start):g} cycles; ask for at least one")
    parts = list(islice(_within(program, start, stop), _MOST_DRAWN + 1))
    if not parts or len(parts) > _MOST_DRAWN:
        count = "no steps" if not parts else f"more than {_MOST_DRAWN:,} steps"
        raise InvalidInput(
            f"cycles {show_given(round(start))} to {show_given(round(stop))} have {count}; choose others or fewer"
        )
    frame = _Frame(start, stop)
    names = list(dict.fromkeys(part.name for part in parts if part.step is not None))
    height = _TOP + len(Engine) * (_LANE + _GAP) + _AXIS + 22 * (1 + len(names) // 8)
    body = [*(frame.part(part) for part in parts), *frame.labels(), *frame.axis(), *_legend(names)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12"><defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse"'
        f' patternTransform="rotate(45)"><rect width="6" height="6" class="t-idle"/>'
        f'<path d="M0 0V6" class="t-stripe" stroke-width="2"/></pattern></defs><style>{_STYLE}</style>'
        f'<rect width="{_WIDTH}" height="{height}" class="t-paper"/>'
        f'<text x="12" y="26" font-size="15" class="t-ink">{html.escape(title)}</text>{"".join(body)}</svg>\n'
    )


def timeline_html(svg: str, *, title: str) -> str:
    """A page with nothing but the picture."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>\n'
        f'<body style="margin:1em">{svg}</body></html>\n'
    )


def _within(program: Program, start: Fraction, stop: Fraction) -> Iterable[Span]:
    """What overlaps the window. Tracks are in order, so once all of them are past it nothing else comes.

    An engine may have its first step millions of steps later: standard attention takes no exponential before it has
    every score. That it ramps until then is known when the others have long passed the window.
    """
    past: set[Engine] = set()
    begun: set[Engine] = set()
    awaited = 0
    for number, part in enumerate(tracks(program)):
        if number > _MOST_PARTS:
            raise InvalidInput(
                f"cycle {float(start):,.0f} comes after {_MOST_PARTS:,} steps and waits; choose an earlier one"
            )
        begun.add(part.engine)
        if part.begin >= stop:
            past.add(part.engine)
            if len(past) == len(Engine):
                return
        elif part.end > start:
            yield part
        awaited = awaited + 1 if past == begun else 0
        if awaited > _AWAITED_PARTS:
            for engine in set(Engine) - begun:
                name = RAMP if program.causes(engine) else DRAIN
                yield Span(engine=engine, name=name, begin=Fraction(0), end=stop, step=None)
            return


class _Frame:
    """Where cycles and engines lie on the picture."""

    def __init__(self, start: Fraction, stop: Fraction) -> None:
        self._start, self._stop = start, stop

    def x(self, cycle: Fraction) -> float:
        shown = min(max(cycle, self._start), self._stop)
        return _LEFT + float((shown - self._start) / (self._stop - self._start)) * (_WIDTH - _LEFT - _RIGHT)

    @staticmethod
    def y(engine: Engine) -> float:
        return _TOP + list(Engine).index(engine) * (_LANE + _GAP)

    def part(self, part: Span) -> str:
        x, y = self.x(part.begin), self.y(part.engine)
        width = self.x(part.end) - x
        fill = "url(#idle)" if part.step is None else _COLOURS.get(part.name, _OTHER)
        waits = part.step is None and part.name not in ("ramp", "drain")
        name = f"waits for {part.name}" if waits else part.name
        told = f"{name}: cycles {float(part.begin):,.1f} to {float(part.end):,.1f}"
        text = (
            f'<text x="{x + width / 2:.2f}" y="{y + _LANE / 2 + 4:.0f}" text-anchor="middle"'
            f' class="{"t-soft" if part.step is None else "t-black"}">{html.escape(name)}</text>'
            if width > 7 * len(name)
            else ""
        )
        stroke = "" if part.step is None else ' stroke="white" stroke-width="0.5"'
        return (
            f'<g><title>{html.escape(told)}</title><rect x="{x:.2f}" y="{y:.0f}" width="{width:.2f}" height="{_LANE}"'
            f' fill="{fill}"{stroke}/>{text}</g>'
        )

    def labels(self) -> list[str]:
        return [
            f'<text x="12" y="{self.y(engine) + _LANE / 2 + 4:.0f}" class="t-ink">{engine.value}</text>'
            for engine in Engine
        ]

    def axis(self) -> list[str]:
        y = _TOP + len(Engine) * (_LANE + _GAP)
        marks = [f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" class="t-axis"/>']
        for tick in range(6):
            cycle = self._start + (self._stop - self._start) * Fraction(tick, 5)
            x = self.x(cycle)
            marks.append(
                f'<path d="M{x:.1f} {y}v5" class="t-axis"/>'
                f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle" class="t-ink">{float(cycle):,.0f}</text>'
            )
        return [*marks, f'<text x="12" y="{y + 18}" class="t-ink">cycles</text>']


def _legend(names: list[str]) -> list[str]:
    top = _TOP + len(Engine) * (_LANE + _GAP) + _AXIS
    entries = []
    for number, name in enumerate([*names, "idle"]):
        x, y = _LEFT + 112 * (number % 8), top + 20 * (number // 8)
        fill = "url(#idle)" if number == len(names) else _COLOURS.get(name, _OTHER)
        entries.append(
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{fill}"/>'
            f'<text x="{x + 16}" y="{y}" class="t-ink">{html.escape(name)}</text>'
        )
    return entries
