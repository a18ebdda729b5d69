from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength, bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

EXACT = Workload(n=4096, d=64)
BOUNDED = replace(EXACT, tolerance=0.05, entry_bound=0.3)


@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
def test_with_a_tolerance_compulsory_words_bind_only_who_reads_all_inputs(direction: str) -> None:
    found = bounds_for(BOUNDED.towards(direction), 8192, degree=2)
    proven = {bound.theorem: bound.strength for bound in found[:2]}
    assert proven == {"unread-values": Strength.ABSOLUTE, "compulsory": Strength.ORDINARY}
    assert all(bound.strength in (Strength.SCHEDULE, Strength.ASYMPTOTIC) for bound in found[2:])
    assert largest_ordinary(found).words == EXACT.towards(direction).compulsory_words
    assert any("every entry is read" in line for line in found[1].assumptions)


def test_what_binds_exact_attention_keeps_its_words_for_exact_algorithms() -> None:
    exact, found = ({bound.theorem: bound for bound in bounds_for(workload, 8192)} for workload in (EXACT, BOUNDED))
    assert set(exact) == set(found) - {"unread-values"}
    for theorem in exact:
        bound = found[theorem]
        assert bound.words == exact[theorem].words
        if theorem != "compulsory" and bound.strength is Strength.SCHEDULE:
            assert bound.assumptions[0].startswith("exact attention")


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 4096),
    d=st.integers(1, 24),
    heads=st.sampled_from([(1, 1), (4, 2)]),
    bound=st.sampled_from([0.05, 0.2, 0.4]),
    fast_words=st.integers(16, 2**14),
)
def test_no_plan_of_features_beats_the_bound_of_its_class(
    n: int, d: int, heads: tuple[int, int], bound: float, fast_words: int
) -> None:
    workload = Workload(n=n, d=d, heads=heads[0], kv_heads=heads[1], tolerance=0.1, entry_bound=bound)
    for dataflow in Dataflow.approximating("forward")[:3]:
        try:
            plan = best_plan_for(workload, fast_words, dataflow=dataflow)
        except DoesNotFit:
            continue
        found = bounds_for(workload, fast_words, degree=plan.tiles["degree"])
        features = [each.words for each in found if each.theorem in ("compulsory", "monomial-epochs")]
        assert len(features) == 2
        assert plan.moved_words >= max(features)
