import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.planning import published_plan
from attenio.planning.plan import Dataflow
from attenio.report.reproduction import FIGURES, Reproduction, paper_volume_words, published_data, reproduce
from attenio.workload import Workload


@pytest.fixture(scope="module")
def fig11() -> Reproduction:
    return reproduce("fig11")


def test_every_printed_number_of_figure_11_is_met_within_one_percent(fig11: Reproduction) -> None:
    printed = [row for row in fig11.rows if row.published is not None]
    assert sorted(row.published for row in printed) == sorted(  # type: ignore[type-var]
        [273.7, 57.0, 26.8, 148.8, 16.4, 7.3, 10.05, 30.12, 18.96, 56.88]
    )
    for row in printed:
        assert row.relative_difference is not None
        assert abs(row.relative_difference) < 0.01, row


@pytest.mark.parametrize("n", published_data()["workload"]["n"])
@pytest.mark.parametrize("d", published_data()["workload"]["d"])
def test_what_the_paper_leaves_out_of_standard_is_the_rereads_of_v(n: int, d: int) -> None:
    fast_words = published_data()["machine"]["cache_kib"] * 1024 // 2
    exact = published_plan(Workload(n=n, d=d), Machine.with_fast_bytes(2 * fast_words), Dataflow.STANDARD)
    assert exact is not None
    left_out = exact.moved_words - paper_volume_words(Dataflow.STANDARD, n=n, d=d, fast_words=fast_words)
    # About M/d rows of outputs fit at a time, and each such tile reads all of V; the rest are ceilings of three loops.
    assert left_out == pytest.approx(n**2 * d**2 / fast_words, rel=0.1, abs=3 * n * d)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    n=st.integers(1, 4096),
    d=st.sampled_from([16, 64, 128]),
    kib=st.integers(8, 1024),
    dataflow=st.sampled_from([Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT]),
)
def test_the_papers_volume_is_the_exact_count_of_its_tiles(n: int, d: int, kib: int, dataflow: Dataflow) -> None:
    plan = published_plan(Workload(n=n, d=d), Machine.with_fast_bytes(kib * 1024), dataflow)
    if plan is None or "resident_keys" in plan.tiles:
        return  # the paper has no count for tiles that do not fit
    assert plan.moved_words == paper_volume_words(dataflow, n=n, d=d, fast_words=kib * 512)


def test_the_mean_row_is_the_geometric_mean_of_the_rows_above_it(fig11: Reproduction) -> None:
    for mean in (row for row in fig11.rows if row.n == "geomean"):
        rows = [r for r in fig11.rows if (r.d, r.dataflow, r.over) == (mean.d, mean.dataflow, mean.over) and r != mean]
        assert len(rows) == 5
        assert math.isclose(math.prod(row.value for row in rows), mean.value**5)


def test_rows_as_plain_values_have_the_documented_names(fig11: Reproduction) -> None:
    plain = json.loads(json.dumps(fig11.to_json()))
    assert len(plain["rows"]) == 40
    for row in plain["rows"]:
        names = ["figure", "d", "n", "dataflow", "over", "value", "published", "counted", "relative_difference"]
        assert list(row) == names


def test_an_unknown_figure_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=rf"unknown figure 'fig99'.*{FIGURES[0]}"):
        reproduce("fig99")


def test_a_dataflow_without_a_published_volume_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no volume for split-keys"):
        paper_volume_words(Dataflow.SPLIT_KEYS, n=64, d=64, fast_words=4096)
