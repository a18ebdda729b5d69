"""What contenders are held against is the definition's gradient, whichever part of it is looked at."""

from typing import Any

import pytest
import torch

from attenio.measurement import exact
from attenio.measurement.contenders import TorchContender, random_inputs
from attenio.workload import Workload


def by_autograd(workload: Workload, inputs: Any) -> tuple[torch.Tensor, ...]:
    """Gradients of all tensors out of the whole matrix of scores, in float64, for a gradient of ones."""
    left, right = exact.band_of(workload)
    i = torch.arange(workload.queries)[:, None] + workload.keys - workload.queries
    j = torch.arange(workload.keys)
    hidden = (j < i - left) | (j > i + right)

    def call(q: Any, k: Any, v: Any) -> Any:
        k, v = (x.repeat_interleave(workload.group, 1) for x in (k, v))
        scores = (q @ k.mT * workload.softmax_scale).masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, -1) @ v

    found: tuple[torch.Tensor, ...] = TorchContender(call).backward(tuple(x.double() for x in inputs))()
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"n": 100, "heads": 2},
        {"n": 150, "heads": 4, "kv_heads": 2, "mask": "causal"},
        {"n": 90, "heads": 2, "mask": "window:20", "value_dim": 5, "scale": 0.7},
        {"queries": 70, "keys": 130, "heads": 3, "kv_heads": 1, "mask": "causal"},
        {"n": 5},
    ],
)
def test_a_part_of_the_gradients_is_that_of_all(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(d=8, batch=2, dtype="fp32", direction="backward", **options)
    inputs = random_inputs(workload, "cpu")
    monkeypatch.setattr(exact, "_ROWS", 64)
    whole = by_autograd(workload, inputs)
    part = exact.exact_part(workload, inputs)
    assert part is not None and [x.shape for x in part] == [x.shape for x in exact.checked_part(whole)]
    error = exact.compared(workload, whole, part)
    assert error is not None and error < 1e-12
    off = tuple(torch.zeros_like(x) for x in whole)
    wrong = exact.compared(workload, (whole[0], off[1], whole[2]), part)
    assert wrong is not None and wrong > 1e-3


def test_nothing_is_compared_where_it_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(n=32, d=8, direction="backward", dtype="fp32")
    inputs = random_inputs(workload, "cpu")
    monkeypatch.setattr(exact, "_MOST_SCORES", {"cpu": 32 * 32 - 1})
    assert exact.exact_part(workload, inputs) is None
    assert exact.compared(workload, inputs, None) is None
