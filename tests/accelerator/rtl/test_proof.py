"""Laws of what is claimed about controllers: along a run all of it holds, and claims that are false fail.

A solver proves the claims for every state in ``studies/rtl/proofs.py``; here they are run, which needs none.
"""

from dataclasses import replace
from typing import Any

import pytest
from amaranth.sim import Simulator

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.proof import BLOCKS, Claims, blocks_of
from attenio.accelerator.rtl.small import small_machine
from attenio.accelerator.step import Engine
from attenio.accelerator.tracks import spans
from attenio.errors import InvalidInput
from attenio.workload import Workload


def design(mask: str = "dense", queries: int = 3, dataflow: str = "attenio") -> Design:
    """Two MACs, and a memory that brings a key sooner than they are done with the one before."""
    machine = small_machine(lines=1, modules=1, cache_words=60, miss_cycles=1)
    return Design.of(Workload(queries=queries, keys=3, d=4, mask=mask), machine, dataflow)


def run(design: Design, cycles: int, blocks: tuple[tuple[str, str], ...] = BLOCKS) -> bool:
    """Run a controller with its claims; whether it is done after so many cycles."""
    claims = Claims(design.nest, blocks, domain="sync")
    walks = claims.controller.walks.values()
    finished = False

    async def bench(ctx: Any) -> None:
        nonlocal finished
        for _ in range(cycles + 1):
            await ctx.tick()
        finished = all(ctx.get(walk.finished) for walk in walks)

    simulator = Simulator(claims)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return finished


@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_all_claims_hold_along_a_run_and_it_ends_when_the_simulator_says(mask: str) -> None:
    some = design(mask, queries=9)
    cycles = int(max(span.end for span in spans(some.program)))
    assert run(some, cycles)
    assert not run(some, cycles - 1)


@pytest.mark.parametrize("dataflow", ["attenio", "standard"])
def test_a_load_that_does_not_wait_overwrites_a_block(dataflow: str) -> None:
    some = design(dataflow=dataflow)
    blocks = blocks_of(some.plan.dataflow)
    if dataflow == "standard":
        assert run(some, int(max(span.end for span in spans(some.program))), blocks)
    for place in some.nest.places[Engine.HBM]:
        if any(place.step.name in fills for fills, _ in blocks):
            place.step = replace(place.step, after=())
    with pytest.raises(AssertionError):
        run(some, 200, blocks)


def test_a_block_that_is_filled_while_it_is_read_is_noticed() -> None:
    assert ("load V", "scores") not in BLOCKS  # values load while scores are computed: that is the overlap
    with pytest.raises(AssertionError):
        run(design(), 200, (("load V", "scores"),))


def test_programs_too_long_for_their_counts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="use a smaller n"):
        Claims(design(queries=250).nest)
