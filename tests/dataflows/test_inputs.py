import numpy as np
import pytest
from hypothesis import given

from attenio.dataflows import random_inputs
from attenio.dataflows.inputs import checked_inputs
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import SharedPrefix
from attenio.workload import Workload

from .laws import QUICK, workloads

PLAIN = Workload(n=4, d=2, heads=2, kv_heads=1, dtype="fp16")
SHARED = Workload(queries=2, keys=6, d=2, batch=3, mask=SharedPrefix(length=4))


@QUICK
@given(workloads())
def test_random_inputs_are_accepted_unchanged_as_given_ones(workload):
    inputs = random_inputs(workload, 5)
    for drawn, checked in zip(inputs, checked_inputs(workload, inputs), strict=True):
        assert (drawn == checked).all()


def test_given_inputs_are_rounded_to_the_element_type():
    q, k, v = random_inputs(PLAIN)
    assert (checked_inputs(PLAIN, (q.astype(float) * 1.00001, k, v)).q == q).all()


def test_a_random_prefix_is_the_same_in_every_request():
    _, k, v = random_inputs(SHARED)
    for array in (k, v):
        assert (array[:, :, :4] == array[:1, :, :4]).all()
        assert (array[1:, :, 4:] != array[:1, :, 4:]).any()


def broken(name, change):
    arrays = {key: array.astype(np.float64) for key, array in zip("qkv", random_inputs(PLAIN), strict=True)}
    arrays[name] = change(arrays[name])
    return tuple(arrays.values())


def with_value(value):
    def change(array):
        array[0, 0, 0, 0] = value
        return array

    return change


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (broken("q", lambda x: x[0]), r"q has shape \(2, 4, 2\); this workload needs .* = \(1, 2, 4, 2\)"),
        (broken("k", lambda x: np.repeat(x, 2, axis=1)), r"k has shape \(1, 2, 4, 2\)"),
        (broken("v", with_value(np.nan)), "v has 1 NaN in it; replace them with numbers"),
        (broken("k", with_value(np.inf)), "k has infinite values; to hide scores, use a mask"),
        (broken("q", with_value(1e6)), r"q has values up to 1e\+06, beyond the range of fp16; scale them down"),
        (broken("q", lambda x: "text"), "q is not an array of numbers"),
        (broken("q", lambda x: x)[:2], "inputs are 2 arrays; give three: q, k and v"),
    ],
)
def test_a_wrong_input_is_named_in_one_line(inputs, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        checked_inputs(PLAIN, inputs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["k", "v"])
def test_a_prefix_that_is_not_shared_is_named(name):
    arrays = random_inputs(SHARED)._asdict()
    arrays[name][1, 0, 3, 0] += 1
    with pytest.raises(InvalidInput, match=rf"{name} differs .* make {name}\[:, :, :4\] the same in all 3 requests"):
        checked_inputs(SHARED, tuple(arrays.values()))


@pytest.mark.parametrize("dtype", list(ElementType))
@pytest.mark.parametrize("bound", [0.1, 0.3, 1.0, 3.3])
def test_random_queries_and_keys_keep_to_their_bound_after_rounding(dtype, bound):
    inputs = random_inputs(Workload(n=64, d=8, dtype=dtype, entry_bound=bound))
    assert 0.8 * bound < np.abs(inputs.q).max() <= bound
    assert 0.8 * bound < np.abs(inputs.k).max() <= bound


def test_entries_beyond_the_bound_are_refused():
    workload = Workload(n=4, d=2, dtype="fp32", entry_bound=0.5)
    q, k, v = (np.array(x) for x in random_inputs(workload))
    k[0, 0, 1, 1] = 0.75
    with pytest.raises(InvalidInput, match=r"k has entries up to 0.75 and the workload says 0.5; state a larger"):
        checked_inputs(workload, (q, k, v))
