from hypothesis import given
from hypothesis import strategies as st

from attenio.planning.plan import Dataflow

from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads


def closed_form(problem, tiles):
    n, m, dk, dv, w = problem.n, problem.m, problem.dk, problem.dv, problem.w
    a, b, r = min(tiles["score_rows"], n), min(tiles["score_keys"], m), min(tiles["resident_keys"], m)
    p, c = min(tiles["output_rows"], n), min(tiles["output_columns"], dv)
    scores = n * dk * -(-m // b) + m * dk * -(-n // a) + n * m * w
    softmax = n * (m + m - r) * w + n * m * w
    outputs = n * m * w * -(-dv // c) + m * dv * -(-n // p) + n * dv
    return scores + softmax + outputs, max(a * b * w + a + 1, (r + 3) * w, p * c * w + p * w + 1)


@QUICK
@given(workloads(), st.data())
def test_standard_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(
        data.draw,
        score_rows=workload.queries + 1,
        score_keys=workload.keys + 1,
        resident_keys=(0, workload.keys),
        output_rows=workload.queries + 1,
        output_columns=workload.value_dim + 1,
    )
    obeys_its_closed_form(workload, Dataflow.STANDARD, tiles, counted(workload), closed_form)
