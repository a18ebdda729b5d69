"""Laws of a bench's own: the numbers of its contenders are held by the command line's tests."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from attenio.cli.bench import _tables
from attenio.errors import InvalidInput
from attenio.measurement.bench import bench
from attenio.measurement.contenders import TorchContender, contenders
from attenio.measurement.result import Bench, Roof, Timing
from attenio.workload import Workload

SMALL = Workload(n=32, d=8, heads=2, dtype="fp32")


def failing(problem: Exception) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def call(_q: Tensor, _k: Tensor, _v: Tensor) -> Tensor:
        raise problem

    return call


@pytest.mark.parametrize("problem", [RuntimeError("no kernel\nfor this"), KeyError("type"), MemoryError()])
def test_what_stops_one_contender_does_not_stop_the_others(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_bad_one(*arguments: Any, **options: Any) -> Any:
        return {"bad": TorchContender(failing(problem)), **contenders(*arguments, **options)}

    monkeypatch.setattr("attenio.measurement.bench.contenders", with_a_bad_one)
    monkeypatch.setattr("attenio.measurement.bench._roof", lambda _like: Roof(flops_per_s=1e10, bytes_per_s=1e10))
    bad, *others = bench(SMALL, "cpu", repeats=1).timings
    assert bad.samples_ms == () and bad.refused in ("no kernel", "'type'", "refused")
    assert [each.name for each in others if each.samples_ms][:1] == ["attenio"]


def test_what_no_memory_holds_is_refused_before_it_is_made() -> None:
    with pytest.raises(InvalidInput, match=r"^inputs and outputs take .* TiB and the memory has .* [KMGT]iB; ask for"):
        bench(Workload(n=2**30, d=512, heads=64, dtype="fp32"), "cpu")


def test_nobody_is_above_the_roof_and_a_roof_that_was_none_is_raised() -> None:
    roof = Roof(flops_per_s=1e9, bytes_per_s=1e9)
    # operations bind here: one takes half the time of the roof, the other twice as long
    timings = (
        Timing(name="attenio", samples_ms=(SMALL.flops / 2e6,)),
        Timing(name="peer", samples_ms=(SMALL.flops / 5e5,)),
    )
    found = Bench(workload=SMALL, device="cpu", software={}, roof=roof, timings=timings)
    assert found.roof_raised == pytest.approx(2)
    assert [found.share_of_roof(each) for each in timings] == pytest.approx([1, 0.25])
    slower = Bench(workload=SMALL, device="cpu", software={}, roof=roof, timings=timings[1:])
    assert (slower.roof_raised, slower.share_of_roof(timings[1])) == (1, pytest.approx(0.5))


def test_long_times_and_high_rates_are_shown_without_powers_of_ten() -> None:
    timings = (Timing(name="attenio", samples_ms=(10880.0,)), Timing(name="peer", samples_ms=(1e-6,)))
    found = Bench(
        workload=SMALL, device="cpu", software={}, roof=Roof(flops_per_s=4e15, bytes_per_s=9e12), timings=timings
    )
    _, roof, table, _ = _tables(found)
    assert "4,000 TFLOP/s, 9,000 GB/s" in str(roof)
    cells = [cell for column in table.columns[1:4] for cell in column.cells]  # type: ignore[union-attr]
    assert "10.88 s" in cells and not any("e" in str(cell) for cell in cells)
