"""The roofline: what each boundary and the arithmetic let a machine reach, and where every dataflow stands under it."""

import math
from dataclasses import dataclass

from attenio.planning.plan import TileRule
from attenio.quantities import bytes_of, show_words
from attenio.report.answer import Answer, BoundaryAnswer
from attenio.report.notation import show_rate
from attenio.report.pictures.canvas import circle, path, picture, text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720.0, 430.0, 108.0, 118.0, 64.0, 58.0
_DASHES = ("", "8 4", "2 4")


@dataclass(frozen=True, kw_only=True)
class _Point:
    """Where one plan stands: flops for each byte that crosses, and the rate that this allows."""

    name: str
    kind: str
    intensity: float
    rate: float


def roofline_svg(answer: Answer) -> str | None:
    """The picture of an answer; None on a machine that does not state both kinds of rate, or within a tolerance."""
    workload = answer.workload
    peak = answer.machine.flops_per_s.get(workload.dtype)
    roofs = [part for part in answer.boundaries if part.boundary.slow.bandwidth_bytes_per_s and part.moved_words]
    if peak is None or not roofs or workload.tolerance is not None:
        return None
    points = _points(answer, roofs, peak)
    ridges = [peak / _rate(part) for part in roofs]
    span = [point.intensity for point in points] + ridges
    frame = _Frame(min(span) / 6, max(span) * 3, min(min(point.rate for point in points), peak / 30) / 2, peak * 3)
    parts = [*frame.grid(), *frame.roofs(roofs, peak)]
    parts += [frame.point(point) for point in points]
    parts += frame.names(points)
    title, below = "Roofline", f"flops a second against flops for each byte moved, on {answer.machine.name}"
    parts += [text(20, 28, title, font_size="18", font_weight="600"), text(20, 48, below, "soft")]
    return picture(_WIDTH, _HEIGHT, title, _description(answer, points, peak), parts)


def _rate(part: BoundaryAnswer) -> float:
    rate = part.boundary.slow.bandwidth_bytes_per_s
    assert rate is not None
    return rate


def _points(answer: Answer, roofs: list[BoundaryAnswer], peak: float) -> list[_Point]:
    """Every dataflow with its best tiles at the slowest boundary, then the limit of the bound and the plan."""
    slowest = roofs[-1]

    def at(name: str, kind: str, words: int) -> _Point:
        intensity = answer.workload.flops / bytes_of(words, element_bytes=answer.workload.dtype.bytes)
        return _Point(name=name, kind=kind, intensity=intensity, rate=min(peak, intensity * _rate(slowest)))

    found = [
        at(each.plan.dataflow.value, "standard", each.plan.moved_words)
        for each in answer.candidates
        if each.plan is not None and each.rule is TileRule.BEST
    ]
    assert slowest.moved_words is not None
    found.append(at("the bound", "bound", slowest.bound.words))
    return [*found, at("this plan", "attenio", slowest.moved_words)]


def _description(answer: Answer, points: list[_Point], peak: float) -> str:
    plan = points[-1]
    binds = "arithmetic" if plan.rate >= peak else "memory"
    return (
        f"{answer.plan.dataflow.value} does {plan.intensity:,.4g} flops for each byte, which allows"
        f" {show_rate(plan.rate, 'FLOP')} of {show_rate(peak, 'FLOP')}: {binds} binds. It moves"
        f" {show_words(answer.plan.moved_words)}."
    )


class _Frame:
    """Where numbers lie, both axes in powers of ten."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self.left, self.right, self.bottom, self.top = left, right, bottom, top

    def x(self, intensity: float) -> float:
        """How far from the left."""
        share = math.log(intensity / self.left) / math.log(self.right / self.left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        """How far from the top."""
        share = math.log(rate / self.bottom) / math.log(self.top / self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> list[str]:
        """Thin lines at powers of ten, with their numbers."""
        low, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for power in range(math.ceil(math.log10(self.left)), math.floor(math.log10(self.right)) + 1):
            x = self.x(10.0**power)
            label = f"{10.0**power:,.0f}" if power >= 0 else f"{10.0**power:g}"
            parts += [path([(x, _TOP), (x, low)], "line", width=1)]
            parts += [text(x, low + 20, label, "soft", text_anchor="middle")]
        for power in range(math.ceil(math.log10(self.bottom)), math.floor(math.log10(self.top)) + 1):
            y = self.y(10.0**power)
            parts += [path([(_LEFT, y), (right, y)], "line", width=1)]
            parts += [text(_LEFT - 8, y + 5, show_rate(10.0**power, "FLOP"), "soft", text_anchor="end")]
        middle = (_LEFT + right) / 2
        return [*parts, text(middle, _HEIGHT - 14, "flops for each byte moved", text_anchor="middle")]

    def roofs(self, roofs: list[BoundaryAnswer], peak: float) -> list[str]:
        """A slope for each boundary up to the arithmetic, and the flat roof that arithmetic is."""
        parts = []
        for number, part in enumerate(reversed(roofs)):
            rate = _rate(part)
            low = max(self.left, self.bottom / rate)
            (x, y), ridge = (self.x(low), self.y(low * rate)), (self.x(peak / rate), self.y(peak))
            parts.append(path([(x, y), ridge], "soft", width=2.5 if number == 0 else 1.5, dash=_DASHES[number % 3]))
            turn = math.degrees(math.atan2(ridge[1] - y, ridge[0] - x))
            label = f"{part.boundary.name}, {show_rate(rate, 'B')}"
            parts.append(
                text(x + 10, y - 9, label, "soft", font_size="13", transform=f"rotate({turn:.1f} {x:.1f} {y:.1f})")
            )
        first = min(peak / _rate(part) for part in roofs)
        end, height = _WIDTH - _RIGHT, self.y(peak)
        parts.append(path([(self.x(first), height), (end, height)], "soft"))
        names = (("arithmetic", -3.0), (show_rate(peak, "FLOP"), 15.0))
        return parts + [text(end + 10, height + below, line, "soft") for line, below in names]

    def point(self, point: _Point) -> str:
        """A dot; the bound is a bar that no plan passes."""
        x, y = self.x(point.intensity), self.y(point.rate)
        if point.kind == "bound":
            return path([(x, y - 14), (x, y + 14)], "bound", width=3)
        return circle(x, y, 7 if point.kind == "attenio" else 4.5, point.kind, f"{point.name}: {point.intensity:,.4g}")

    def names(self, points: list[_Point]) -> list[str]:
        """The plan and the bound by name; the others by the worst and the best of them."""
        bound, plan = points[-2:]
        labels = [
            text(self.x(plan.intensity), self.y(plan.rate) + 30, "this plan", "attenio", text_anchor="middle",
                 font_weight="600"),
            text(self.x(bound.intensity), self.y(bound.rate) - 22, "the bound", "bound", text_anchor="middle",
                 font_weight="600"),
        ]  # fmt: skip
        worst = min(points[:-2], key=lambda point: point.intensity, default=None)
        if worst is not None and worst.intensity < plan.intensity / 1.5:
            labels.append(text(self.x(worst.intensity) + 10, self.y(worst.rate) + 16, worst.name, "standard"))
        return labels
