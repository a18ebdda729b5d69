import numpy as np
from hypothesis import given

from attenio.weight_gradient import WeightGradient, random_weight_inputs, weight_gradients, weighted_attention
from attenio.weight_gradient.inputs import WeightInputs

from .laws import FEWER, weight_workloads


def doubles(workload, seed=0):
    return WeightInputs(*(array.astype(np.float64) for array in random_weight_inputs(workload, seed)))


@FEWER
@given(weight_workloads(longest=7, widest=3))
def test_the_definition_agrees_with_finite_differences(workload):
    inputs = doubles(workload)
    found = weight_gradients(inputs, workload)
    step = 1e-5
    for name, gradient in (("x", found.dx), ("y", found.dy)):
        for index in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                moved = getattr(inputs, name).copy()
                moved[index] += sign * step
                ends.append((weighted_attention(inputs._replace(**{name: moved}), workload) * inputs.do).sum())
            assert abs((ends[0] - ends[1]) / (2 * step) - gradient[index]) <= 1e-7 * (1 + np.abs(gradient).max())


@FEWER
@given(weight_workloads())
def test_gradients_of_many_rows_are_sums_of_those_of_single_rows(workload):
    inputs = doubles(workload)
    whole = weight_gradients(inputs, workload)
    total = np.zeros_like(whole.dx), np.zeros_like(whole.dy)
    for row in range(workload.queries):
        alone = np.zeros_like(inputs.do)
        alone[row] = inputs.do[row]
        for into, part in zip(total, weight_gradients(inputs._replace(do=alone), workload), strict=True):
            into += part
    np.testing.assert_allclose(total[0], whole.dx, atol=1e-12)
    np.testing.assert_allclose(total[1], whole.dy, atol=1e-12)


def test_a_shift_of_all_scores_of_a_row_does_not_reach_the_weights_of_queries():
    """Keys that are all alike make all scores of a row alike: X cannot change the output."""
    workload = WeightGradient(n=6, d=3)
    inputs = doubles(workload)
    alike = inputs._replace(a2=np.tile(inputs.a2[:1], (6, 1)))
    np.testing.assert_allclose(weight_gradients(alike, workload).dx, 0, atol=1e-12)
