"""The control store of a program: every step of the array and of the EXP unit, taken apart into operations."""

from collections.abc import Iterator
from dataclasses import dataclass

from attenio.accelerator.rtl.along_rows.layout import Layout
from attenio.accelerator.rtl.along_rows.operations import (
    MINUS_INFINITY,
    ZERO,
    At,
    Kind,
    Mode,
    Operation,
    StepCode,
    take_maximum,
    take_sum,
)
from attenio.accelerator.rtl.geometry import Geometry
from attenio.accelerator.rtl.nest import Place
from attenio.accelerator.step import Operation as Doing
from attenio.planning import Dataflow


@dataclass(frozen=True, kw_only=True)
class Coder:
    """Steps of a dataflow as operations on an array."""

    layout: Layout
    dataflow: Dataflow
    widths: tuple[int, int]
    lines: int
    macs_per_line: int
    modules: int

    @property
    def macs(self) -> int:
        """MACs of the array."""
        return self.lines * self.macs_per_line

    def array(self, places: list[Place], number: int) -> StepCode:
        """A step of the array."""
        step = places[number].step
        code = StepCode(cycles=int(step.cycles), units=self.macs)
        match step.name:
            case "scores":
                self._scores(code, step.rows, step.keys)
            case "maxima":
                tile = places[number + 1].step  # the subtraction that follows knows its rows and keys
                self._maxima(code, tile.rows, tile.keys, self._late(places, number))
            case "row sums":
                for row in range(step.rows if self.dataflow is Dataflow.FLASH_ATTENTION_2 else 0):
                    # the factors are there: from now on the new maximum is the old one
                    new, old = self.layout.at("maxima", row), self.layout.at("old maxima", row)
                    copied = Operation(kind=Kind.MAXIMUM, a=MINUS_INFINITY, c=new, to=old)
                    code.soonest(0, copied, step.name)
                for row in range(step.rows):
                    words = [self._score(row, key) for key in range(step.keys)]
                    temporary = self.layout.at("temporary", row * self.layout.score_stride)
                    take_sum(code, words, self.lines, (self.layout.at("row sums", row), temporary), step.name)
            case "rescale":
                tile = next(place.step for place in places[number:] if place.step.name == "outputs")
                self._rescale(code, tile.rows, tile.keys)
            case "outputs":
                self._outputs(code, step.rows, step.keys)
            case "products":
                self._products(code, step.rows, step.keys)
            case "normalise":
                self._normalise(code, step.rows)
            case "probabilities" | "divide":
                for key in range(step.keys):
                    word = self._score(0, key)
                    divided = Operation(kind=Kind.DIVIDE, c=word, b=self._row_sum(0, step.keys), to=word)
                    code.put(key // self.macs, key % self.macs, divided)
            case _:
                assert step.name == "subtract"  # an EXP module subtracts before it exponentiates
        return code

    def exponentials(self, place: Place) -> list[dict[int, Operation]]:
        """A step of the EXP unit: a less b, exponentiated, module by module of every cycle."""
        step = place.step
        cycles: list[dict[int, Operation]] = [{} for _ in range(int(step.cycles))]
        words = []
        for row in range(step.rows):
            largest = self.layout.at("maxima", row)
            if step.operation is Doing.RESCALING:
                factor = self.layout.at("factors", row)
                words.append(Operation(a=self._old_maximum(row), b=largest, to=factor))
            else:
                each = (self._score(row, key) for key in range(step.keys))
                words += [Operation(a=word, b=largest, to=word) for word in each]
        for at, operation in enumerate(words):
            cycles[at // self.modules][at % self.modules] = operation
        return cycles

    def _score(self, row: int, key: int) -> At:
        shifted = self.dataflow is Dataflow.FLAT
        return self.layout.at("scores", row * self.layout.score_stride + key, shifted=shifted)

    def _old_maximum(self, row: int) -> At:
        return self.layout.at("old maxima", row).read(Mode.MINUS_INFINITY_IF_FRESH)

    def _row_sum(self, row: int, keys: int) -> At:
        """Where the sum of a row lies; that of a single key is itself."""
        return self._score(row, 0) if keys == 1 else self.layout.at("row sums", row)

    def _geometry(self, rows: int) -> Geometry:
        return Geometry(rows=rows, lines=self.lines, macs_per_line=self.macs_per_line)

    def _broadcast(self, geometry: Geometry, width: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Cycle, MAC, row, element and way of every product; beyond the last element a way has nothing to multiply."""
        for number in range(geometry.full):
            for element in range(width):
                for mac in range(self.macs):
                    yield number * width + element, mac, number * self.macs + mac, element, 0
        ways = geometry.ways(width)
        for turn in range(geometry.last_steps(width)):
            for row in range(geometry.rest):
                for way in range(ways):
                    line = row // self.macs_per_line + way * geometry.group
                    mac = line * self.macs_per_line + row % self.macs_per_line
                    yield (geometry.full * width + turn, mac, geometry.full * self.macs + row, turn * ways + way, way)

    def _scores(self, code: StepCode, rows: int, keys: int) -> None:
        d, geometry = self.widths[0], self._geometry(rows)
        turns, ways, whole = geometry.steps(d), geometry.ways(d), geometry.full * self.macs
        for key in range(keys):
            for cycle, mac, row, element, way in self._broadcast(geometry, d):
                shared = row >= whole and ways > 1
                to = self.layout.at("partial", (row - whole) * ways + way) if shared else self._score(row, key)
                q = self.layout.at("queries", row * d + element) if element < d else ZERO
                x = self.layout.at("keys", key * d + element) if element < d else ZERO
                first = element < ways if row >= whole else element == 0
                last = element + ways >= d if row >= whole else element == d - 1
                hides = key - row if last and not shared else None
                operation = Operation(a=q, b=x, c=ZERO if first else to, to=to, hides=hides)
                code.put(key * turns + cycle, mac, operation)
            if ways > 1:
                self._join(code, (key + 1) * turns - 1, key, range(whole, rows), ways)

    def _join(self, code: StepCode, cycle: int, key: int, rows: range, ways: int) -> None:
        """Partial sums of the MACs of a row, neighbours first, a level of the tree after the other."""
        first, count, level = 0, ways, 0
        while count > 1:
            pairs, following = -(-count // 2), first + len(rows) * count
            for number, row in enumerate(rows):
                here = [self.layout.at("partial", first + number * count + way) for way in range(count)] + [ZERO]
                for pair in range(pairs):
                    to = self.layout.at("partial", following + number * pairs + pair)
                    hides = None
                    if pairs == 1:
                        to, hides = self._score(row, key), key - row
                    operation = Operation(a=here[2 * pair], b=here[2 * pair + 1], to=to, hides=hides)
                    code.tree.setdefault((level, cycle), []).append(operation)
            first, count, level = following, pairs, level + 1

    def _late(self, places: list[Place], number: int) -> tuple[int, int]:
        """Levels of the tree that are still under way as maxima begin, and cycles between two keys."""
        if self.dataflow is not Dataflow.FLAT:
            return 0, 1
        scores = next(place.step for place in reversed(places[:number]) if place.step.name == "scores")
        geometry = self._geometry(scores.rows)
        return geometry.levels(self.widths[0]), geometry.steps(self.widths[0])

    def _maxima(self, code: StepCode, rows: int, keys: int, late: tuple[int, int]) -> None:
        levels, turns = late
        for row in range(rows):
            words = [(self._score(row, key), max(0, levels - (keys - 1 - key) * turns)) for key in range(keys)]
            to, temporary = self.layout.at("maxima", row), self.layout.at("temporary", row * self.layout.score_stride)
            if self.dataflow is Dataflow.FLASH_ATTENTION_2:
                words.append((self._old_maximum(row), 0))
            take_maximum(code, words, to, temporary, "maxima")

    def _rescale(self, code: StepCode, rows: int, keys: int) -> None:
        """Outputs and sums so far, by the factors of their rows; the sum of the tile is added."""
        width = self.widths[1]
        for row in range(rows):
            factor, total = self.layout.at("factors", row), self.layout.at("sums", row)
            before = total.read(Mode.ZERO_IF_FRESH)
            summed = Operation(kind=Kind.SUM, a=self._row_sum(row, keys), b=factor, c=before, to=total)
            code.soonest(0, summed, "rescale")
            for element in range(width):
                word = self.layout.at("outputs", row * width + element)
                scaled = Operation(kind=Kind.TIMES, b=factor, c=word.read(Mode.ZERO_IF_FRESH), to=word)
                code.soonest(0, scaled, "rescale")

    def _outputs(self, code: StepCode, rows: int, keys: int) -> None:
        width, geometry = self.widths[1], self._geometry(rows)
        mode = Mode.ZERO_IF_FRESH if self.dataflow is Dataflow.FLAT else Mode.WORD
        for key in range(keys):
            for cycle, mac, row, element, _ in self._broadcast(geometry, width):
                if element < width:
                    to = self.layout.at("outputs", row * width + element)
                    value, before = self.layout.at("values", key * width + element), to if key else to.read(mode)
                    operation = Operation(a=self._score(row, key), b=value, c=before, to=to)
                    code.put(key * geometry.steps(width) + cycle, mac, operation)

    def _products(self, code: StepCode, height: int, width: int) -> None:
        geometry = self._geometry(height)
        for cycle, mac, row, element, _ in self._broadcast(geometry, width):
            if element < width:
                to = self.layout.at("outputs", row * width + element)
                left, right = self.layout.at("columns", row), self.layout.at("columns", height + element)
                code.put(cycle, mac, Operation(a=left, b=right, c=to.read(Mode.ZERO_IF_FRESH), to=to))

    def _normalise(self, code: StepCode, rows: int) -> None:
        width = self.widths[1]
        for cycle, mac, row, element, _ in self._broadcast(self._geometry(rows), width):
            if element < width:
                to = self.layout.at("outputs", row * width + element)
                total, before = self.layout.at("sums", row), to.read(Mode.ZERO_IF_FRESH)
                code.put(cycle, mac, Operation(kind=Kind.DIVIDE, b=total, c=before, to=to))
