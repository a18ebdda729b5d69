"""Words moved against fast memory: the bound, the best plan, FlashAttention-2's own tiles, and the standard way."""

import math
from dataclasses import dataclass

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import best_plan_for, published_plan_for
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import bytes_of, show_bytes, show_words
from attenio.report.notation import short_count
from attenio.report.pictures.canvas import path, picture, text
from attenio.workload import Direction, Workload

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900.0, 480.0, 80.0, 232.0, 64.0, 58.0
_OCTAVES = 14
_POINTS_PER_OCTAVE = 2


@dataclass(frozen=True, kw_only=True)
class _Line:
    name: str
    kind: str
    words: tuple[int | None, ...]
    dash: str = ""


def words_svg(workload: Workload, fast_words: int) -> str:
    """The picture for fast memories around one of ``fast_words`` words, which it marks, with its gaps in words."""
    if workload.direction is not Direction.FORWARD:
        raise InvalidInput("the picture words is of a forward pass; use --direction forward, or draw tiles")
    middle = max(fast_words, 64)
    steps = _OCTAVES * _POINTS_PER_OCTAVE
    sizes = sorted({round(middle * 2.0 ** ((k - steps // 2) / _POINTS_PER_OCTAVE)) for k in range(steps + 1)})
    lines = _lines(workload, [size for size in sizes if size >= 8])
    frame = _Frame([size for size in sizes if size >= 8], lines)
    parts = [*frame.grid(workload), *frame.region(lines[0]), frame.mark(middle, workload)]
    parts += [frame.line(line) for line in reversed(lines)]
    parts += frame.labels(lines)
    title = "Words moved against fast memory"
    parts += [text(20, 28, title, font_size="18", font_weight="600"), text(20, 48, str(workload), "soft")]
    return picture(_WIDTH, _HEIGHT, title, _description(workload, fast_words), parts)


def _plan(workload: Workload, size: int, dataflow: Dataflow | None = None) -> Plan | None:
    try:
        return best_plan_for(workload, size, dataflow=dataflow)
    except DoesNotFit:
        return None


def _lines(workload: Workload, sizes: list[int]) -> list[_Line]:
    def moved(plan: Plan | None) -> int | None:
        return None if plan is None else plan.moved_words

    return [
        _Line(
            name="the bound, proven",
            kind="bound",
            words=tuple(largest_ordinary(bounds_for(workload, size)).words for size in sizes),
        ),
        _Line(name="AttenIO's plan", kind="attenio", words=tuple(moved(_plan(workload, size)) for size in sizes)),
        _Line(
            name="FlashAttention-2's tiles",
            kind="flash",
            words=tuple(moved(published_plan_for(workload, size, Dataflow.FLASH_ATTENTION_2)) for size in sizes),
            dash="10 4",
        ),
        _Line(
            name="the standard way",
            kind="standard",
            words=tuple(moved(_plan(workload, size, Dataflow.STANDARD)) for size in sizes),
            dash="3 4",
        ),
    ]


def _description(workload: Workload, fast_words: int) -> str:
    """The numbers at the marked size, for those who do not see the lines."""
    (bound, *plans) = _lines(workload, [fast_words])
    least = bound.words[0]
    assert least is not None
    told = [f"{line.name} {show_words(each)}" for line in plans if (each := line.words[0]) is not None]
    memory = show_bytes(bytes_of(fast_words, element_bytes=workload.dtype.bytes))
    return f"With {memory} of fast memory: at least {show_words(least)}; {'; '.join(told)}."


class _Frame:
    """Where numbers lie."""

    def __init__(self, sizes: list[int], lines: list[_Line]) -> None:
        self.sizes = sizes
        counts = [words for line in lines for words in line.words if words is not None]
        self.low, self.high = min(counts) / 2, max(counts) * 2

    def x(self, size: float) -> float:
        """How far from the left."""
        share = math.log(size / self.sizes[0]) / math.log(self.sizes[-1] / self.sizes[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, words: float) -> float:
        """How far from the top."""
        share = math.log(words / self.low) / math.log(self.high / self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self, workload: Workload) -> list[str]:
        """Thin lines at powers of four bytes along x and of ten words along y, with their numbers."""
        bottom, right, width = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, workload.dtype.bytes
        parts = []
        first = math.ceil(math.log2(self.sizes[0] * width))
        for power in range(first + first % 2, math.floor(math.log2(self.sizes[-1] * width)) + 1, 2):
            x = self.x(2**power / width)
            parts.append(path([(x, _TOP), (x, bottom)], "line", width=1))
            parts.append(text(x, bottom + 20, show_bytes(2**power), "soft", text_anchor="middle"))
        for power in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1):
            y = self.y(10.0**power)
            parts.append(path([(_LEFT, y), (right, y)], "line", width=1))
            parts.append(text(_LEFT - 8, y + 5, _tens(power), "soft", text_anchor="end"))
        middle = (_LEFT + right) / 2
        parts.append(text(middle, _HEIGHT - 14, "fast memory", text_anchor="middle"))
        vertical = f"rotate(-90 20 {_HEIGHT / 2:g})"
        parts.append(text(20, _HEIGHT / 2, "words moved", text_anchor="middle", transform=vertical))
        return parts

    def region(self, bound: _Line) -> list[str]:
        """What no algorithm with ordinary products can reach."""
        bottom = self.y(self.low)
        points = [(self.x(size), self.y(words)) for size, words in zip(self.sizes, bound.words, strict=True) if words]
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*points, (points[-1][0], bottom), (points[0][0], bottom)])
        return [
            f'<path d="M{drawn}Z" class="f-forbidden"/>',
            text(points[0][0] + 14, bottom - 32, "no algorithm with", "soft"),
            text(points[0][0] + 14, bottom - 14, "ordinary products gets here", "soft"),
        ]

    def mark(self, size: int, workload: Workload) -> str:
        """The size that is asked about."""
        x, words = self.x(size), show_bytes(bytes_of(size, element_bytes=workload.dtype.bytes))
        line = path([(x, _TOP), (x, _HEIGHT - _BOTTOM)], "soft", width=1.5, dash="2 3")
        return line + text(x + 5, _TOP + 12, words, "soft")

    def line(self, line: _Line) -> str:
        """One line, where there is something to draw."""
        pairs = zip(self.sizes, line.words, strict=True)
        points = [(self.x(size), self.y(words)) for size, words in pairs if words is not None]
        return path(points, line.kind, width=3.5 if line.kind == "attenio" else 2.5, dash=line.dash) if points else ""

    def labels(self, lines: list[_Line]) -> list[str]:
        """Names at the right ends of the lines, pushed apart where they would overlap."""
        ends = [(self.y(line.words[-1]), line) for line in lines if line.words[-1] is not None]
        parts, last = [], -math.inf
        for y, line in sorted(ends, key=lambda pair: pair[0]):
            last = max(y + 5, last + 20)
            parts.append(text(_WIDTH - _RIGHT + 12, last, line.name, line.kind, font_weight="600"))
        return parts


def _tens(power: int) -> str:
    names = {3: "thousand", 6: "million", 9: "billion", 12: "trillion", 15: "10¹⁵"}
    whole, rest = divmod(power, 3)
    name = names.get(3 * whole)
    return f"{10**rest} {name[:1].upper()}" if name and power >= 3 and 3 * whole <= 12 else short_count(10.0**power)
