"""What a counted run computed, beside the definition."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attenio.reference import attention, attention_gradients
from attenio.workload import Workload


def assert_results_are_defined(results: Mapping[str, Any], inputs: Mapping[str, Any], workload: Workload) -> None:
    q, k, v, do = (inputs[name] for name in ("Q", "K", "V", "dO"))
    expected = {}
    if workload.direction.value != "backward":
        expected = {"O": attention(q, k, v, workload.towards("forward"))}
    if workload.direction.value != "forward":
        gradients = attention_gradients(q, k, v, do, workload.towards("backward"))
        expected |= {"dQ": gradients.dq, "dK": gradients.dk, "dV": gradients.dv}
    assert results.keys() == expected.keys()
    for name, right in expected.items():
        np.testing.assert_allclose(results[name], right, atol=5e-5, err_msg=name)
