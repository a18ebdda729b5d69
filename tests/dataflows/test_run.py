import math

import numpy as np

from attenio.dataflows import random_inputs
from attenio.dataflows.run import max_abs_error
from attenio.reference import attention
from attenio.workload import Workload

WORKLOAD = Workload(n=6, d=3, heads=2, kv_heads=1, batch=2, mask="documents:2,4")


def test_the_error_is_the_largest_distance_from_the_definition():
    inputs = random_inputs(WORKLOAD)
    exact = attention(*inputs, WORKLOAD)
    assert max_abs_error(exact.astype(np.float32), inputs, WORKLOAD) < 1e-6
    off = exact.astype(np.float32)
    off[1, 0, 5, 2] += 0.25
    assert math.isclose(max_abs_error(off, inputs, WORKLOAD), 0.25, rel_tol=1e-5)


def test_a_missing_output_shows_as_nan():
    inputs = random_inputs(WORKLOAD)
    output = attention(*inputs, WORKLOAD).astype(np.float32)
    output[0, 0, 0, 0] = np.nan
    assert math.isnan(max_abs_error(output, inputs, WORKLOAD))
