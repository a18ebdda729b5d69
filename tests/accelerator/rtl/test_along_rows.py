"""Laws of the machine that takes softmax along rows: standard attention, FLAT and FlashAttention-2."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator.functional.arithmetic import Numbers, Precision
from attenio.accelerator.growth import Listed
from attenio.accelerator.pe_array import PeArray
from attenio.accelerator.program import Program, Ramp
from attenio.accelerator.rtl.along_rows.operations import At, Kind, Operation, StepCode, take_maximum, take_sum
from attenio.accelerator.rtl.check import Runner, check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.nest import Nest
from attenio.accelerator.rtl.small import small_machine
from attenio.accelerator.step import Engine, GrowingStep, Step
from attenio.errors import AttenioError
from attenio.workload import Workload


@pytest.mark.parametrize(
    ("dataflow", "about", "shape"),
    [
        # two tiles of queries, two of keys, some scores hidden
        ("flash-attention-2", {"modules": 1, "cache_words": 24}, {"n": 3, "d": 2, "mask": "causal"}),
        # a row shared by two MACs, whose last partial sums meet after the step is over; two heads
        ("flat", {"modules": 1, "cache_words": 20}, {"queries": 2, "keys": 3, "d": 3, "value_dim": 1, "heads": 2}),
        # scores and probabilities that are stored and come back
        ("standard", {"cache_words": 20}, {"queries": 3, "keys": 2, "d": 2, "value_dim": 1, "mask": "window:2"}),
        # tiles with one key more than the one before, and rows of scores that are as much longer
        ("flash-attention-2", {"modules": 1, "cache_words": 20}, {"n": 5, "d": 1, "mask": "causal"}),
        ("flat", {"modules": 1, "cache_words": 12}, {"n": 5, "d": 1, "mask": "causal"}),
    ],
    ids=["flash-attention-2", "flat", "standard", "flash-attention-2-growing", "flat-growing"],
)
def test_every_step_and_every_word_are_those_of_the_simulator(
    dataflow: str, about: dict[str, Any], shape: dict[str, Any]
) -> None:
    found = check(Design.of(Workload(**shape), small_machine(macs=1, **about), dataflow), runner=Runner.PYSIM, seed=3)
    assert found.to_json() == {
        **found.to_json(),
        "dataflow": dataflow,
        "steps": found.design.program.steps,
        "steps_equal": True,
        "words": found.design.program.work.stored_words,
        "words_equal": True,
        "cycles": found.simulated_cycles,
    }


def test_rounds_whose_steps_grow_are_written_out_and_equal_ones_are_a_loop() -> None:
    for dataflow, cache_words in (("flash-attention-2", 20), ("flat", 12)):
        machine = small_machine(macs=1, modules=1, cache_words=cache_words)
        design = Design.of(Workload(n=5, d=1, mask="causal"), machine, dataflow)
        assert design.nest.written_out == 4
        names = {step.name for step in design.program}
        assert {name: design.nest.root.runs(name, 1)[0] for name in names} == {
            name: sum(step.name == name for step in design.program) for name in names
        }
    one, two = (Step(name="scores", engine=Engine.PE, cycles=3 * size, keys=size) for size in (1, 2))
    growing = GrowingStep.of(Listed(np.array([1, 2, 2, 2, 3, 3])), one, two)
    nest = Nest(Program((Ramp(times=6, body=(growing,)),)))
    assert [place.step.cycles for place in nest.places[Engine.PE]] == [3, 6, 9]
    assert [loop.counts for loop in nest.loops] == [(3,), (2,)]


def run(code: StepCode, memory: dict[int, Any], numbers: Numbers) -> None:
    """The operations of a step, cycle by cycle: all read, then all write."""
    for cycle in code.array:
        written = {}
        for operation in cycle.values():
            a, c = memory.get(operation.a.address), memory[operation.c.address]
            larger = operation.kind is Kind.MAXIMUM
            written[operation.to.address] = np.maximum(a, c) if larger else numbers.add_product(c, a, np.float16(1))
        memory |= written


@settings(max_examples=17, deadline=None)
@given(count=st.integers(1, 20), lines=st.integers(1, 8), macs=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_reductions_fit_into_the_cycles_of_the_model_and_sum_in_its_order(
    count: int, lines: int, macs: int, seed: int
) -> None:
    pe = PeArray(lines=lines, macs_per_line=macs)
    numbers = Numbers(pe=pe, precision=Precision.HALF)
    values = np.random.default_rng(seed).uniform(0, 1, count).astype(np.float16)
    words, to = [At(address=at) for at in range(count)], At(address=count)
    memory = dict(enumerate(values))
    code = StepCode(cycles=pe.reduction_cycles(count), units=pe.macs)
    take_sum(code, words, lines, (to, At(address=count + 1)), "row sums")
    run(code, memory, numbers)
    assert memory[count if count > 1 else 0] == numbers.row_sums(values[None])[0, 0]
    code = StepCode(cycles=pe.reduction_cycles(count), units=pe.macs)
    # the last word comes as late as the tree has levels
    late = [(word, 0) for word in words[:-1]] + [(words[-1], (lines - 1).bit_length())]
    if count > 1:
        take_maximum(code, late, to, At(address=count + 1), "maxima")
        run(code, memory, numbers)
        assert memory[count] == values.max()


def test_two_results_of_a_unit_in_a_cycle_are_a_mistake() -> None:
    code = StepCode(cycles=1, units=1)
    code.put(0, 0, Operation(to=At()))
    with pytest.raises(AssertionError):
        code.put(0, 0, Operation(to=At(address=1)))
    with pytest.raises(AttenioError, match="cannot do 'maxima' in the 1 cycles"):
        code.soonest(0, Operation(to=At(address=1)), "maxima")


@pytest.mark.parametrize(
    ("dataflow", "about", "shape", "told"),
    [
        ("standard", {"cache_words": 10}, {"n": 8, "d": 2}, "does not stay"),
        ("flash-attention-2", {"cache_words": 10**5}, {"n": 240, "d": 32}, "the control store would have"),
        ("flash-attention-2", {"rate": 16, "cache_words": 99}, {"n": 4, "d": 2}, "2 MACs take as many words a cycle"),
    ],
    ids=["spilled", "store", "memory"],
)
def test_what_cannot_be_built_is_refused_in_one_line(
    dataflow: str, about: dict[str, Any], shape: dict[str, Any], told: str
) -> None:
    with pytest.raises(AttenioError) as refused:
        Design.of(Workload(**shape), small_machine(macs=1, **about), dataflow)
    assert told in str(refused.value) and "\n" not in str(refused.value)
