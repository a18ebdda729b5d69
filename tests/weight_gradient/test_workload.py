from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from attenio.errors import InvalidInput
from attenio.masks import BlockSparse
from attenio.weight_gradient import WeightGradient

from .laws import QUICK, Counts, weight_workloads


@QUICK
@given(weight_workloads())
def test_the_pattern_has_exactly_the_needed_rows_and_keys(workload):
    pattern = workload.pattern
    counts = Counts.of(workload)
    found = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    assert np.array_equal(found, counts.required)
    assert workload.compulsory_words == 2 * (counts.n + counts.m) * counts.d + 4 * counts.d**2


def test_a_workload_is_a_value():
    assert WeightGradient(n=8, d=2, mask="causal") == WeightGradient(queries=8, keys=8, d=2, mask="causal")
    assert len({WeightGradient(n=8, d=2), WeightGradient(n=8, d=2)}) == 1
    assert str(WeightGradient(n=8192, d=2)) == "weight gradient n=8,192 d=2 dense fp16"


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"d": 2}, "queries is not given"),
        ({"n": 0, "d": 2}, "must be at least 1"),
        ({"n": 4, "d": 2, "mask": "window:5"}, "window 5 is wider than the 4 keys"),
        ({"n": 4, "d": 2, "mask": BlockSparse(layout=((True,),), query_block=4, key_block=4)}, "know no mask"),
        ({"n": 4, "d": 2, "dtype": "fp32", "accumulator": "fp16"}, "narrower"),
        ({"n": 4, "d": 2, "scale": 0}, "finite number other than zero"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_line(wrong, what):
    with pytest.raises(InvalidInput, match=what):
        WeightGradient(**wrong)


def test_a_keyword_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        WeightGradient(n=8, d=2, heads=4)


def test_a_length_that_contradicts_the_two_others_is_refused() -> None:
    with pytest.raises(InvalidInput, match="n is 5 but queries is 8 and keys is 8"):
        replace(WeightGradient(n=8, d=2), n=5)
