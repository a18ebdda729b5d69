"""Cycles are those of the guide, written out a second time: loops over tiles, engines with a clock each, no program.

Nothing of the accelerator is used but its answer: steps and their lengths are as docs/guide/accelerator.md has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log2

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Engine, Switches, plan_for, simulate_plan
from attenio.errors import DoesNotFit
from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts, HbmParts
from attenio.planning import Dataflow, Tiles, plan_with
from attenio.workload import Workload

HBM, PE, EXP = Engine.HBM, Engine.PE, Engine.EXP


def over(amount: int, units: int) -> int:
    return -(-amount // units)


@dataclass
class ByHand:
    """What steps take on a chip, and when each ends."""

    chip: AcceleratorParts
    bytes_per_s: int
    free: dict[Engine, Fraction] = field(default_factory=lambda: dict.fromkeys(Engine, Fraction(0)))
    busy: dict[Engine, Fraction] = field(default_factory=lambda: dict.fromkeys(Engine, Fraction(0)))
    done: dict[str, Fraction] = field(default_factory=dict)
    words: int = 0

    def step(self, engine: Engine, name: str, cycles: Fraction | int, *after: str) -> None:
        begin = max(self.free[engine], *(self.done.get(each, Fraction(0)) for each in after))
        self.free[engine] = self.done[name] = begin + cycles
        self.busy[engine] += cycles

    def move(self, name: str, words: int, *after: str, jump: bool = False) -> None:
        memory = self.chip.hbm
        bursts = over(over(2 * words, memory.burst_bytes), memory.channels)
        turn = Fraction(memory.burst_bytes * memory.channels * self.chip.clock_hz, self.bytes_per_s)
        refreshed = Fraction(memory.refresh_interval_ns, memory.refresh_interval_ns - memory.refresh_ns)
        miss_ns = memory.row_precharge_ns + memory.row_activate_ns + memory.read_latency_ns
        lost = Fraction(miss_ns * self.chip.clock_hz, 10**9) if jump else 0
        self.words += words
        self.step(HBM, name, bursts * turn * refreshed + lost, *after)

    def sharing(self, rows: int) -> int:
        return max(1, self.chip.pe_lines // over(rows, self.chip.macs_per_line))

    def broadcast(self, rows: int, steps: int) -> int:
        passes = [min(self.chip.macs, rows - row) for row in range(0, rows, self.chip.macs)]
        return sum(over(steps, self.sharing(some)) for some in passes)

    def joining(self, rows: int, steps: int) -> int:
        last = rows % self.chip.macs
        if last == 0:
            return 0
        fewest = over(steps, self.sharing(last))
        return ceil(log2(min(macs for macs in range(1, steps + 1) if over(steps, macs) == fewest)))

    def along_rows(self, elements: int) -> int:
        return over(elements, self.chip.pe_lines) + ceil(log2(self.chip.pe_lines))

    def map(self, elements: int) -> int:
        return over(elements, self.chip.macs)

    def exponentials(self, count: int) -> int:
        return over(count, self.chip.exp_modules)


def tiles(length: int, tile: int) -> Iterator[tuple[int, int]]:
    return ((start, min(tile, length - start)) for start in range(0, length, tile))


def needed(workload: Workload, start: int, rows: int) -> int:
    """Keys that a tile of rows needs; masks are aligned at their ends."""
    if str(workload.mask) == "dense":
        return workload.keys
    return max(0, start + rows + workload.keys - workload.queries)


def attenio(chip: ByHand, workload: Workload, a: int, b: int, on: Switches) -> None:
    d, rest = workload.d, [*tiles(workload.queries, a)]
    ready_for_scores = ("load Q", "load K", "outputs", "normalise")
    ready_for_outputs = ("load V", "row sums", "store O")
    loaded = False
    for number, (start, rows) in enumerate(rest):
        keys = needed(workload, start, rows)
        if keys and not loaded:
            chip.move("load Q", rows * d, "store O")
        for key, some in tiles(keys, b):
            scores = rows * some
            chip.move("load K", some * d, *(ready_for_outputs if on.overlap_keys else ("outputs",)), jump=key == 0)
            chip.step(PE, "scores", some * chip.broadcast(rows, d) + chip.joining(rows, d), *ready_for_scores)
            chip.move("load V", some * d, *(ready_for_scores if on.overlap_values else ("scores",)), jump=key == 0)
            if on.parallel_softmax:
                joined = chip.joining(rows, some)
                further = chip.broadcast(rows, some) - chip.broadcast(rows, 1) + joined
                chip.step(PE, "maxima", 2 + (further if some > 1 else 0), "scores")
                chip.step(EXP, "exponentials", chip.exponentials(scores), "maxima")
                chip.step(EXP, "rescaling", chip.exponentials(rows), "maxima")
                group = min(rows, chip.chip.macs, chip.chip.exp_modules)
                chip.step(PE, "maps", chip.map(3 * scores + 2 * rows - (scores - rows) - 4 * group), "maxima")
                chip.step(PE, "row sums", 2 + (joined if some > 1 else 0), "exponentials", "rescaling")
            else:
                chip.step(PE, "maxima", chip.along_rows(scores), "scores")
                chip.step(PE, "subtract", chip.map(scores + rows), "maxima")
                chip.step(EXP, "exponentials", chip.exponentials(scores), "subtract")
                chip.step(EXP, "rescaling", chip.exponentials(rows), "subtract")
                chip.step(PE, "multiply", chip.map(rows), "rescaling")
                chip.step(PE, "row sums", chip.along_rows(scores), "exponentials", "multiply")
            chip.step(PE, "outputs", some * chip.broadcast(rows, d), *ready_for_outputs)
        loaded = bool(keys) and on.overlap_queries and number + 1 < len(rest)
        if loaded:
            chip.move("load Q", rest[number + 1][1] * d, "outputs")
        chip.step(PE, "normalise", chip.broadcast(rows, d), "outputs")
        chip.move("store O", rows * d, "normalise")


def flash_attention_2(chip: ByHand, workload: Workload, a: int, b: int) -> None:
    d = workload.d
    for start, rows in tiles(workload.queries, a):
        keys = needed(workload, start, rows)
        if keys:
            chip.move("load Q", rows * d, "store O")
        for key, some in tiles(keys, b):
            scores = rows * some
            chip.move("load K", some * d, "outputs", "load Q", jump=key == 0)
            chip.move("load V", some * d, "outputs")
            chip.step(PE, "scores", some * chip.broadcast(rows, d) + chip.joining(rows, d), "load V")
            chip.step(PE, "maxima", chip.along_rows(scores) + chip.map(scores + rows), "scores")
            chip.step(EXP, "exponentials", chip.exponentials(scores) + chip.exponentials(rows), "maxima")
            rescaled = chip.map(rows * (d + 1))
            chip.step(PE, "row sums", chip.along_rows(scores) + rescaled, "exponentials")
            chip.step(PE, "outputs", some * chip.broadcast(rows, d), "row sums")
        chip.step(PE, "normalise", chip.broadcast(rows, d), "outputs")
        chip.move("store O", rows * d, "normalise")


def flat(chip: ByHand, workload: Workload, a: int) -> None:
    d = workload.d
    granule = max(1, chip.chip.hbm.channels * chip.chip.hbm.burst_bytes // 2 // d)
    for start, rows in tiles(workload.queries, a):
        keys = needed(workload, start, rows)
        if keys:
            chip.move("load Q", rows * d, "store O")
        for key, some in tiles(keys, granule):
            chip.move("load K", some * d, "load Q", "scores", jump=key == 0)
            chip.step(PE, "scores", some * chip.broadcast(rows, d), "load K")
        for _ in range(rows if keys else 0):
            chip.step(PE, "maximum", chip.along_rows(keys) + chip.map(keys), "scores")
            chip.step(EXP, "exponentials", chip.exponentials(keys), "maximum")
            chip.step(PE, "probabilities", chip.along_rows(keys) + chip.map(keys), "exponentials")
        for key, some in tiles(keys, granule):
            chip.move("load V", some * d, "probabilities", "outputs", jump=key == 0)
            chip.step(PE, "outputs", some * chip.broadcast(rows, d), "load V", "probabilities")
        chip.move("store O", rows * d, "outputs")


@st.composite
def chips(draw: st.DrawFn, d: int) -> tuple[AcceleratorParts, int, int]:
    """Parts, bytes of cache and bytes a second."""
    memory = HbmParts(
        channels=draw(st.sampled_from([1, 5, 16])),
        burst_bytes=draw(st.sampled_from([2, 8, 32])),
        row_precharge_ns=draw(st.sampled_from([0, 14])),
        refresh_ns=draw(st.sampled_from([0, 260])),
    )
    parts = AcceleratorParts(
        pe_lines=draw(st.sampled_from([1, 3, 4, 13, 64])),
        macs_per_line=draw(st.sampled_from([1, 5, 32])),
        exp_modules=draw(st.sampled_from([1, 8, 128])),
        kv_buffer_bytes=2 * d * draw(st.integers(1, 3)),
        clock_hz=draw(st.sampled_from([10**9, 13 * 10**8])),
        hbm=memory,
    )
    return parts, draw(st.sampled_from([2000, 6000, 2**16])), draw(st.sampled_from([10**9, 128 * 10**9]))


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.data(), st.sampled_from([Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT]))
def test_cycles_are_those_counted_by_hand(data: st.DataObject, dataflow: Dataflow) -> None:
    d = data.draw(st.sampled_from([1, 3, 8, 16, 33]))
    parts, cache_bytes, rate = data.draw(chips(d))
    levels = (
        MemoryLevel(name="cache", capacity_bytes=cache_bytes),
        MemoryLevel(name="HBM", bandwidth_bytes_per_s=float(rate)),
    )
    machine = Machine(name="chip", levels=levels, accelerator=parts)
    queries, mask = data.draw(st.integers(1, 60)), data.draw(st.sampled_from(["dense", "causal"]))
    workload = Workload(queries=queries, keys=data.draw(st.sampled_from([queries, 1, 45])), d=d, mask=mask)
    switches = Switches(
        **{name: data.draw(st.booleans()) for name in vars(Switches())} if dataflow is Dataflow.ATTENIO else {}
    )
    try:
        plan = plan_for(workload, machine, dataflow)
        if dataflow is Dataflow.ATTENIO and data.draw(st.booleans()):  # the paper's takes one key at a time
            sizes = {"query_tile": data.draw(st.integers(1, 20)), "key_tile": parts.kv_buffer_bytes // (2 * d)}
            plan = plan_with(workload, machine, dataflow, Tiles.of(**sizes))
    except DoesNotFit:
        return
    found = simulate_plan(plan, machine, switches=switches)
    by_hand = ByHand(parts, rate)
    match dataflow:
        case Dataflow.ATTENIO:
            attenio(by_hand, workload, plan.tiles["query_tile"], plan.tiles["key_tile"], switches)
        case Dataflow.FLASH_ATTENTION_2:
            flash_attention_2(by_hand, workload, plan.tiles["query_tile"], plan.tiles["key_tile"])
        case _:
            flat(by_hand, workload, plan.tiles["query_tile"])
    assert found.cycles == max(by_hand.free.values())
    assert found.moved_words == by_hand.words
    assert {engine: found.timeline.busy_cycles(engine) for engine in Engine} == by_hand.busy
