from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .feature_laws import SMALL, bounded_workloads, feature_total, obeys_and_guarantees
from .laws import planned, sizes


def closed_form(problem, tiles):
    t, k = tiles["degree"], min(tiles["key_tile"], problem.m)
    dk, dv, w = problem.dk, problem.dv, problem.w
    moved = problem.m * (dk + dv) + problem.g * (problem.touched_rows * dk + problem.n * dv)
    state = feature_total(dk, t) * (dv + 1) * w
    return moved, state + k * (dk + dv) + dk + (dv + 1) * w + (t + 1) * w


@SMALL
@given(bounded_workloads(), st.data())
def test_feature_state_moves_what_its_closed_form_says_and_errs_no_more_than_it_guarantees(workload, data):
    tiles = sizes(data.draw, degree=3, key_tile=workload.keys + 1)
    obeys_and_guarantees(workload, Dataflow.FEATURE_STATE, tiles, closed_form)


def test_tokens_that_come_one_by_one_cost_their_own_words_only():
    """Decoding: the state stays, so a token costs its key, value, queries and outputs, whatever came before."""
    tiles = Tiles.of(degree=2, key_tile=1)

    def words(tokens, keys):
        workload = Workload(
            queries=tokens, keys=keys, d=4, heads=6, kv_heads=2, mask="causal", tolerance=0.1, entry_bound=0.3
        )
        return execute(planned(workload, Dataflow.FEATURE_STATE, tiles, 10**4)).moved_words

    assert words(9, 40) - words(8, 39) == words(5, 70) - words(4, 69) == 2 * (4 + 4) + 6 * (4 + 4)
