"""Laws of a bench's own: the numbers of its contenders are held by the command line's tests."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.measurement.bench import bench
from attenio.measurement.contenders import TorchContender, contenders
from attenio.measurement.result import Roof
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
    with pytest.raises(InvalidInput, match=r"^inputs and outputs take [^\n]* GiB and the memory has [^\n]*$"):
        bench(Workload(n=2**30, d=512, heads=64, dtype="fp32"), "cpu")
