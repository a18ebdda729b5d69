"""How far the average of the refreshes is from refreshes that happen at their times."""

from dataclasses import replace
from fractions import Fraction

import pytest

from attenio.accelerator import Hardware, Program, Repeat, simulate
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.refresh import RefreshTimes, refreshed
from attenio.catalogue import machine_named
from attenio.workload import Workload

MACHINE = machine_named("attenio-512k")
HARDWARE = Hardware.of(MACHINE)
HBM = HARDWARE.hbm
INTERVAL, REFRESH = 3900, 260
SHARE = Fraction(INTERVAL, INTERVAL - REFRESH)


def _over_average(dataflow: str, n: int, d: int, when: RefreshTimes) -> tuple[float, Fraction, Fraction, Fraction]:
    done = simulate(Workload(n=n, d=d), MACHINE, dataflow=dataflow)
    run = refreshed(done.program, HBM, when, clock_hz=10**9)
    return float(run.cycles / done.cycles) - 1, run.without, done.cycles, run.cycles


@pytest.mark.parametrize("dataflow", ["standard", "flat", "flash-attention-2", "attenio"])
@pytest.mark.parametrize("d", [64, 128])
def test_average_and_refreshes_together_are_within_their_proven_bounds(dataflow: str, d: int) -> None:
    n = 512 if dataflow in ("flat", "standard") else 1024
    _, without, average, together = _over_average(dataflow, n, d, RefreshTimes.TOGETHER)
    assert without <= average <= without * SHARE
    assert without <= together <= (without + REFRESH) * SHARE


@pytest.mark.parametrize(("d", "least", "most"), [(64, -0.002, 0.001), (128, -0.002, 0.016)])
def test_channels_that_refresh_in_their_pauses_hardly_hold_attenio_up(d: int, least: float, most: float) -> None:
    error, *_ = _over_average("attenio", 1024, d, RefreshTimes.BY_CHANNEL)
    assert least < error < most


def test_a_stream_without_pauses_loses_the_share_that_the_average_says() -> None:
    words = 64 * 10**6
    load = Steps(hardware=HARDWARE).load("K", words, after=())
    together = refreshed(Program((load,)), HBM, RefreshTimes.TOGETHER, clock_hz=10**9).cycles
    assert abs(together - load.cycles) <= REFRESH
    in_pieces = Program((Repeat(count=1000, body=(Steps(hardware=HARDWARE).load("K", words // 1000, after=()),)),))
    by_channel = refreshed(in_pieces, HBM, RefreshTimes.BY_CHANNEL, clock_hz=10**9).cycles
    # eight refreshes are put off for ever
    assert load.cycles - 10 * REFRESH * SHARE <= by_channel <= load.cycles + REFRESH


def test_a_memory_that_needs_no_refresh_is_not_held_up() -> None:
    assert MACHINE.accelerator is not None
    parts = replace(MACHINE.accelerator, hbm=replace(MACHINE.accelerator.hbm, refresh_ns=0))
    done = simulate(Workload(n=128, d=64), replace(MACHINE, accelerator=parts))
    for when in RefreshTimes:
        run = refreshed(done.program, done.hardware.hbm, when, clock_hz=10**9)
        assert run.cycles == run.without == done.cycles
