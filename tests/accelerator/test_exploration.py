"""Fronts, budgets and advice."""

import math

import pytest

from attenio.accelerator import simulate
from attenio.accelerator.designs import Designs, Tiling, machine_of
from attenio.accelerator.exploration import Budget, Exploration, explore
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import Dataflow
from attenio.workload import Workload

BASE = machine_named("attenio-512k")
WORKLOAD = Workload(n=8192, d=64)
DESIGNS = Designs.product(
    BASE,
    pe_lines=[16, 64, 128],
    macs_per_line=[16, 32],
    exp_modules=[32, 128, 256],
    cache_bytes=[2**16, 2**18, 2**19],
    channels=[4, 16, 32],
)


def costs(found: Exploration) -> list[tuple[float, ...]]:
    return [
        (float(design.cycles), design.area_mm2, design.power_mw, design.bandwidth_gb_per_s) for design in found.front
    ]


def test_no_design_of_the_front_beats_another_and_none_costs_more_than_allowed() -> None:
    found = explore(DESIGNS, WORKLOAD, Budget(area_mm2=4, power_mw=3000))
    every = costs(found)
    for left in every:
        assert left[1] <= 4
        assert left[2] <= 3000
        assert not any(right != left and all(r <= c for r, c in zip(right, left, strict=True)) for right in every)


def test_every_design_within_the_budget_is_on_the_front_or_beaten_by_it() -> None:
    alone = Designs.product(BASE, exp_modules=[32, 128, 256], channels=[4, 16])
    found = explore(alone, WORKLOAD, Budget(area_mm2=100))
    every = costs(found)
    for number in range(len(alone)):
        one = explore(
            Designs.product(BASE, **{k: (v,) for k, v in alone.sizes(number).items()}), WORKLOAD, found.budget
        )
        (own,) = costs(one)
        assert any(all(r <= c for r, c in zip(right, own, strict=True)) for right in every)


def test_the_fastest_is_as_fast_as_it_is_simulated() -> None:
    found = explore(DESIGNS, WORKLOAD, tiling=Tiling.PUBLISHED)
    assert found.best.cycles == simulate(WORKLOAD, machine_of(BASE, dict(found.best.sizes), 64)).cycles
    assert found.best.cycles == min(design.cycles for design in found.front)
    assert found.best.cycles <= found.base.cycles


def test_a_larger_budget_is_never_worse() -> None:
    cycles = [explore(DESIGNS, WORKLOAD, Budget(area_mm2=area)).best.cycles for area in (1, 2, 4, 8, math.inf)]
    assert cycles == sorted(cycles, reverse=True)


def test_advice_follows_what_the_array_waits_for() -> None:
    starved = explore(Designs.product(BASE, exp_modules=[8]), WORKLOAD, Budget(area_mm2=10))
    assert starved.advice.startswith("grow exp-modules next: 16 take")
    thirsty = explore(Designs.product(BASE, channels=[1], cache_bytes=[2**14]), WORKLOAD, Budget(area_mm2=10))
    assert thirsty.advice.startswith("grow channels next: 2 take")
    assert "no area of the chip" in thirsty.advice


@pytest.mark.parametrize("budget", [{"area_mm2": 0}, {"power_mw": -1}, {"area_mm2": math.nan}])
def test_a_budget_must_be_above_zero(budget: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="a budget must be above zero"):
        Budget(**budget)


def test_a_budget_that_nothing_keeps_to_says_what_the_smallest_takes() -> None:
    with pytest.raises(DoesNotFit, match=r"the smallest takes .* mm² and .* mW; raise it"):
        explore(DESIGNS, WORKLOAD, Budget(area_mm2=0.1))


def test_a_dataflow_without_a_program_is_refused_however_many_designs_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attenio.accelerator.exploration.MOST_ONE_BY_ONE", 0)
    with pytest.raises(InvalidInput, match=r"^kept-keys has no program on the accelerator; choose one of standard, "):
        explore(DESIGNS, WORKLOAD, dataflow=Dataflow.KEPT_KEYS)


def test_too_many_designs_to_run_one_by_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.accelerator.exploration.MOST_ONE_BY_ONE", 5)
    explore(Designs.product(BASE, exp_modules=range(60, 66)), WORKLOAD)
    with pytest.raises(InvalidInput, match="6 designs within the budget are more than the 5 that run one by one"):
        explore(Designs.product(BASE, exp_modules=range(60, 66)), WORKLOAD, dataflow=Dataflow.FLAT)
