"""Every score of the experiment is read back, from a message no longer than allowed and no shorter than the floor."""

from attenio.fast_products.experiment import compression_experiment


def test_messages_lie_between_the_floor_and_what_the_theorem_allows():
    done = compression_experiment()
    assert {row.run for row in done} == {"attenio's dataflow", "Strassen's product"}
    for row in done:
        assert row.recovered
        assert row.published_floor_words <= row.floor_words <= row.message_words <= row.budget_words


def test_all_scores_of_both_runs_are_sent():
    scores = {}
    for row in compression_experiment():
        scores[row.run] = scores.get(row.run, 0) + row.scores
    assert scores["attenio's dataflow"] == 24 * 24
    assert scores["Strassen's product"] >= 12 * 12
