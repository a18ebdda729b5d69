from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attenio.approximation import taylor
from attenio.dataflows.features import all_features, features_by_group
from attenio.planning.plan import Dataflow

from .feature_laws import SMALL, bounded_workloads, obeys_and_guarantees
from .laws import sizes


def closed_form(problem, tiles):
    t, k, dk, dv, w = tiles["degree"], min(tiles["key_tile"], problem.m), problem.dk, problem.dv, problem.w
    b, group = min(tiles["value_columns"], dv + 1), tiles["coordinate_group"]
    features, coordinates = {}, {}
    for chosen in combinations_with_replacement(range(dk + 1), t):  # 0 is the constant
        multiset = tuple(c // group for c in chosen)
        features[multiset] = features.get(multiset, 0) + 1
        coordinates[multiset] = {c for c in range(1, dk + 1) if c // group in multiset}
    turns, blocks = len(features), -(-(dv + 1) // b)
    read = sum(len(needed) for needed in coordinates.values())
    rows = problem.touched_rows * (blocks * read + 2 * (turns - 1) * (dv + 1) * w) + problem.n * dv
    if blocks > 1:
        rows += blocks * problem.touched_rows * w
    moved = problem.m * (blocks * read + turns * dv) + problem.g * rows
    f, a = max(features.values()), max(len(needed) for needed in coordinates.values())
    peak = f * b * w + k * (a + min(b, dv)) + a + b * w + (t + 1) * w
    return moved, peak + (w if blocks > 1 else 0)


@SMALL
@given(bounded_workloads(), st.data())
def test_feature_blocks_moves_what_its_closed_form_says_and_errs_no_more_than_it_guarantees(workload, data):
    limits = {"degree": 3, "coordinate_group": workload.d + 1, "value_columns": workload.value_dim + 1}
    tiles = sizes(data.draw, **limits, key_tile=workload.keys + 1)
    obeys_and_guarantees(workload, Dataflow.FEATURE_BLOCKS, tiles, closed_form)


@SMALL
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_features_of_a_polynomial_multiply_to_it_whole_or_in_blocks(d, degree, group):
    draw = np.random.default_rng(d)
    q, k = draw.uniform(-0.5, 0.5, (2, 7, d)).astype(np.float32)
    polynomial = taylor(1.0, degree)
    right = polynomial(0.5 * (q @ k.T))
    whole = all_features(d, polynomial, 0.5)
    assert np.allclose(whole.weighted(q) @ whole.of(k).T, right, atol=1e-6)
    parts = list(features_by_group(d, polynomial, 0.5, group))
    assert sum(len(part) for part in parts) == len(whole)
    added = sum(part.weighted(q[:, part.coordinates]) @ part.of(k[:, part.coordinates]).T for part in parts)
    assert np.allclose(added, right, atol=1e-6)
