"""Laws of the accelerator as hardware, on arrays small enough for Amaranth's own simulator."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.functional.arithmetic import Numbers, Precision
from attenio.accelerator.pe_array import PeArray
from attenio.accelerator.rtl import check as checking
from attenio.accelerator.rtl import verilator_model
from attenio.accelerator.rtl.build import Built, built
from attenio.accelerator.rtl.check import Runner, TimedStep, check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.geometry import Geometry
from attenio.accelerator.rtl.machines import top_of
from attenio.accelerator.rtl.parts import Library
from attenio.accelerator.rtl.small import made_of, small_machine
from attenio.accelerator.rtl.streams import Streams
from attenio.accelerator.rtl.tools import compiler
from attenio.errors import AttenioError, InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.parts import SiliconParts
from attenio.workload import Workload


@pytest.mark.parametrize(
    ("about", "shape"),
    [
        (
            {"macs": 1, "cache_words": 24},
            {"n": 4, "d": 2, "mask": "causal"},
        ),  # several tiles, a ramp of keys, a row shared
        (
            {"macs": 1, "modules": 1},
            {"queries": 3, "keys": 2, "d": 3, "value_dim": 2, "heads": 2},
        ),  # rows shared by two MACs
        (
            {"lines": 1, "macs": 1, "modules": 1, "cache_words": 60},
            {"queries": 3, "keys": 4, "d": 1, "mask": "window:2"},
        ),  # three passes
    ],
    ids=["causal", "shared", "passes"],
)
def test_every_step_and_every_word_are_those_of_the_simulator(about: dict[str, Any], shape: dict[str, Any]) -> None:
    found = check(Design.of(Workload(**shape), small_machine(**about)), runner=Runner.PYSIM, seed=3)
    assert found.to_json() == {
        **found.to_json(),
        "steps": found.design.program.steps,
        "steps_equal": True,
        "words": found.design.plan.workload.queries * found.design.widths[1] * found.design.plan.workload.heads,
        "words_equal": True,
        "cycles": found.simulated_cycles,
    }


@pytest.mark.parametrize(
    ("about", "silicon"),
    [
        ({}, SiliconParts(adder_cycles=2, fill_cycles=1, exp_fill_cycles=1, multipliers=1, macs_a_divider=2)),
        ({"macs": 1}, SiliconParts(adder_cycles=4)),  # sums of three passes on the way at once
    ],
    ids=["all", "passes"],
)
def test_other_silicon_is_built_as_it_is_simulated(about: dict[str, int], silicon: SiliconParts) -> None:
    machine = made_of(small_machine(lines=1, modules=1, **about), silicon)
    shape = Workload(queries=3, keys=2, d=3, value_dim=2)
    found = check(Design.of(shape, machine), runner=Runner.PYSIM, seed=3)
    assert found.steps_equal and found.words_equal
    assert found.cycles > checking.simulated_steps(Design.of(shape, made_of(machine, SiliconParts())))[-1].end
    with pytest.raises(InvalidInput, match="the machine of flat is built with the silicon of the published cycles"):
        Design.of(shape, machine, "flat")


def test_a_wrong_word_is_shown_beside_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    design, true_streams = Design.of(Workload(n=2, d=1), small_machine(lines=1, macs=1, modules=1)), checking.streams

    def wrong(design: Design, seed: int) -> Streams:
        given = true_streams(design, seed)
        return Streams(queries=given.queries, kv=given.kv ^ 0x8000)

    monkeypatch.setattr(checking, "streams", wrong)
    found = check(design, runner=Runner.PYSIM)
    assert found.steps_equal and not found.words_equal
    first = found.to_json()["first_word"]
    assert first["row"] == 0 and first["rtl"]["bits"] != first["functional"]["bits"]


def test_the_first_step_that_differs_is_shown_beside_the_simulated_one() -> None:
    right = [TimedStep(engine="PE array", name=name, begin=at, end=at + 1) for at, name in enumerate("abc")]
    late = [right[0], TimedStep(engine="PE array", name="b", begin=2, end=3), right[2]]
    assert checking._first_step(tuple(late), right) == (1, late[1], right[1])
    assert checking._first_step(tuple(right), right) is None
    assert checking._first_step(tuple(right[:2]), right) == (2, None, right[2])


@settings(max_examples=14, deadline=None)
@given(rows=st.integers(1, 40), lines=st.integers(1, 6), macs=st.integers(1, 6), width=st.integers(1, 9))
def test_words_come_back_from_the_places_where_they_were_put(rows: int, lines: int, macs: int, width: int) -> None:
    geometry = Geometry(rows=rows, lines=lines, macs_per_line=macs)
    matrix = np.arange(1, rows * width + 1, dtype=np.uint16).reshape(rows, width)
    beats = geometry.beats(matrix)
    assert (geometry.matrix(beats, width) == matrix).all()
    assert (np.sort(beats[beats > 0]) == np.sort(matrix.ravel())).all()  # every word once
    assert len(beats) == PeArray(lines=lines, macs_per_line=macs).broadcast_cycles(rows=rows, steps=width)


def test_the_functional_model_rounds_a_multiply_add_once() -> None:
    words = np.array([0x5022, 0x40CF, 0x305E], dtype=np.uint16).view(np.float16)[:, None]
    total = Numbers(pe=PeArray(lines=1, macs_per_line=1), precision=Precision.HALF).add_product(*words)
    exact = float(words[0, 0]) + float(words[1, 0]) * float(words[2, 0])
    double = np.float16(np.float32(words[0, 0]) + np.float32(words[1, 0]) * np.float32(words[2, 0]))
    assert abs(float(total[0]) - exact) < abs(float(double) - exact)


@pytest.mark.parametrize(
    ("about", "shape", "dataflow", "told"),
    [
        ({"modules": 3}, {"n": 4, "d": 2}, "attenio", "3 EXP modules do not divide 4 MACs"),
        ({"rate": 16}, {"n": 4, "d": 2}, "attenio", "use a slower memory or a larger array"),
        ({"cache_words": 4000, "lines": 1, "macs": 1, "modules": 1}, {"n": 99, "d": 2}, "attenio", "99 passes"),
        ({}, {"n": 4, "d": 2}, "stacked-groups", "is simulated, and not built; use one of attenio, standard, flat"),
        ({}, {"n": 4, "d": 2, "dtype": "bf16"}, "attenio", "fp16"),
        ({"cache_words": 3}, {"n": 4, "d": 2}, "attenio", "needs at least 10 words of fast memory"),
        ({"cache_words": 400}, {"n": 4, "d": 40}, "attenio", "the KV buffer holds 32 words"),
        ({}, {"n": 4, "d": 2, "mask": "documents:2,2"}, "attenio", None),
    ],
    ids=["modules", "banks", "passes", "dataflow", "type", "cache", "buffer", "documents"],
)
def test_what_cannot_be_built_is_refused_in_one_line(
    about: dict[str, Any], shape: dict[str, Any], dataflow: str, told: str | None
) -> None:
    if told is None:  # equal documents are one band after the other
        assert Design.of(Workload(**shape), small_machine(**about), dataflow).pattern.rows == 2
        return
    with pytest.raises(AttenioError) as refused:
        Design.of(Workload(**shape), small_machine(**about), dataflow)
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_times_that_no_clock_has_are_refused() -> None:
    slow = small_machine()
    level = MemoryLevel(name="HBM", bandwidth_bytes_per_s=3 * 10**9)
    odd = Machine(name="odd", levels=(slow.levels[0], level), accelerator=slow.accelerator)
    with pytest.raises(InvalidInput, match="a clock counts whole ones"):
        Design.of(Workload(n=4, d=2), odd)


def test_a_missing_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from attenio.accelerator.rtl import tools

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="and there is none"):
        compiler()


@pytest.fixture(scope="module")
def made() -> Built:
    return built(Design.of(Workload(n=2, d=2), small_machine()))


def test_no_wire_of_a_unit_is_wider_than_its_number(made: Built) -> None:
    """One that repeats its sign is made of its own bits: lints call it circular, and models evaluate it twice."""
    units = {part: text for part, text in made.parts.items() if part.startswith("fp16_")}
    assert len(units) == 6
    for part, text in units.items():
        assert not re.findall(r"connect \\(\S+) \{ (\S+ \[\d+\]) \2 ", text), part


def test_every_part_has_the_ports_by_which_others_place_it(made: Built) -> None:
    ports = {}
    for name, text in made.parts.items():
        own = text[text.index(f"module \\{name}\n") :].partition("\nend\n")[
            0
        ]  # parts of a part may be modules beside it
        ports[name] = set(re.findall(r"wire .*(?:input|output) \d+\s+(?:signed\s+)?\\(\S+)", own))
    compared = set()
    for name, text in made.parts.items():
        for part, body in re.findall(r"cell \\(\S+) .*\n((?:\s+(?:connect|parameter).*\n)*)", text):
            if part in ports:
                wired = set(re.findall(r"connect \\(\S+)", body))
                assert wired == ports[part], (name, part, wired ^ ports[part])
                compared.add(part)
    assert compared == made.parts.keys() - {"accelerator"}


def test_verilator_where_there_is_none_is_refused_and_its_model_has_every_port(monkeypatch: pytest.MonkeyPatch) -> None:
    some = Design.of(Workload(n=2, d=1), small_machine(lines=3, macs=1, modules=1))
    text = verilator_model.loop_text(some, "", str)
    ports = dict(top_of(Library(separate=False), some).signature.members.items())
    named = set(re.findall(r"top\.(\w+)", text))
    assert named <= set(ports) and {name for name in ports if not name.endswith("_phase")} == named
    monkeypatch.setattr(verilator_model.shutil, "which", lambda _: None)
    with pytest.raises(InvalidInput, match="takes Verilator and make, and one of them is not there"):
        check(some, runner=Runner.VERILATOR)
    with pytest.raises(InvalidInput, match="leave --runner verilator out"):
        check(some, runner=Runner.VERILATOR, vcd=Path("waves.vcd"))
