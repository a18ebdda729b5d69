"""Laws of ``attenio reproduce``."""

from typing import Any


def test_published_numbers_come_out_within_one_percent(attenio: Any) -> None:
    rows = attenio("reproduce", "fig11", "--json").json["rows"]
    printed = [row for row in rows if row["published"] is not None]
    assert len(printed) == 10
    assert {"d", "n", "dataflow", "value", "published"} <= rows[0].keys()
    assert all(abs(row["value"] / row["published"] - 1) < 0.01 for row in printed)
    assert "273" in attenio("reproduce", "FIG11").out


def test_an_unknown_figure_lists_the_known_ones(attenio: Any) -> None:
    assert "choose one of fig10, fig11" in attenio("reproduce", "fig99").mistake
    assert "unknown figure 'figg11'; did you mean fig11? choose" in attenio("reproduce", "figg11").mistake
    assert "unknown figure '11'; did you mean fig11? choose" in attenio("reproduce", "11").mistake
    assert "unknown figure 'fig1'; did you mean fig1" in attenio("reproduce", "fig1").mistake


def test_an_experiment_of_the_accelerator_is_printed_beside_the_published_numbers(attenio: Any) -> None:
    rows = attenio("reproduce", "fig10", "--json").json["rows"]
    assert {"figure", "d", "n", "dataflow", "value", "published"} <= rows[0].keys()
    assert "8.8" in attenio("reproduce", "fig10").out


def test_the_compression_experiment_reads_every_score_back(attenio):
    rows = attenio("reproduce", "compression", "--json").json["rows"]
    assert rows and all(row["recovered"] and row["message_words"] <= row["budget_words"] for row in rows)
    assert "NOT" not in attenio("reproduce", "compression").out
