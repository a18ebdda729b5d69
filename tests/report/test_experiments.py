"""The published experiments come out, with one set of parameters."""

import json

import pytest

from attenio.errors import InvalidInput
from attenio.report.experiments import EXPERIMENTS, ExperimentRow, experiment


def rows(figure: str) -> tuple[ExperimentRow, ...]:
    return experiment(figure).rows


def test_the_mean_speedups_of_figure_10_are_met_within_ten_percent() -> None:
    means = [row for row in rows("fig10") if row.at == "geomean"]
    assert len(means) == 6
    for row in means:
        assert row.published is not None
        assert abs(row.value / row.published - 1) < 0.1, row


@pytest.mark.parametrize("d", [64, 128])
def test_every_bar_of_figure_10_is_in_its_place(d: int) -> None:
    bars = [row for row in rows("fig10") if row.d == d and row.at != "geomean"]
    for n in {row.at for row in bars}:
        here = [row for row in bars if row.at == n]
        ours = sorted([(row.value, row.dataflow) for row in here] + [(1.0, "standard")])
        printed = sorted([(row.published or 0.0, row.dataflow) for row in here] + [(1.0, "standard")])
        assert [name for _, name in ours] == [name for _, name in printed]


def test_utilisations_of_figure_12_are_met_within_three_points() -> None:
    printed = [row for row in rows("fig12") if row.published is not None]
    assert len(printed) == 6
    for row in printed:
        assert row.published is not None
        assert abs(row.value - row.published) < (3 if "%" in row.quantity else 0.1 * row.published), row


def test_attenio_hardly_stalls_as_in_figure_13() -> None:
    stalls = [row for row in rows("fig13") if row.dataflow == "attenio"]
    assert all(row.value < 1 for row in stalls)
    for row in stalls:
        assert row.published is None or abs(row.value - row.published) < 0.05


def test_table_3_adds_up() -> None:
    for row in rows("table3"):
        if row.at == "total":
            assert row.value == pytest.approx(row.published, rel=1e-9)


def test_more_cache_never_hurts_attenio_against_a_fixed_standard() -> None:
    assert {row.axis for row in rows("fig14")} == {"cache_kb"}
    assert len(rows("fig14")) == 42


@pytest.mark.parametrize("figure", EXPERIMENTS)
def test_rows_are_plain_values_under_the_documented_names(figure: str) -> None:
    plain = json.loads(json.dumps(experiment(figure).to_json()))
    for row in plain["rows"]:
        assert {"figure", "d", "dataflow", "value", "published"} <= set(row)
        assert len(row) == 7


def test_an_unknown_experiment_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"unknown experiment 'fig99'; .*choose one of fig10"):
        experiment("fig99")
