"""The stages are one search: same optimum, never a worse schedule, and an interrupt keeps what is known."""

from functools import partial

import pytest

from attenio.pebbling import Ending, Game, check
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.solving.search import in_stages
from attenio.pebbling.solving.search.in_stages import search_in_stages
from attenio.pebbling.solving.search.solver import best_first

GAME = Game(graph=attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED), red=5)
# 2 rows and 6 keys: not solved in a moment, and the schedule made at once is far from the best.
LARGER = Game(graph=attention(Head(rows=2, keys=6, d=1), softmax=Softmax.UNSHIFTED), red=8, sliding=True)


@pytest.mark.parametrize("moment_s", [2.0, 1e-9])
def test_stages_change_no_optimum(monkeypatch, moment_s: float) -> None:
    monkeypatch.setattr(in_stages, "_MOMENT_S", moment_s)
    found = search_in_stages(GAME, time_limit_s=30.0)
    assert found.optimal
    assert found.cost_words == best_first(GAME).cost_words
    assert check(GAME, found.schedule).legal


def test_where_the_limit_is_met_the_schedule_is_no_worse_and_the_bound_holds(monkeypatch) -> None:
    monkeypatch.setattr(in_stages, "_MOMENT_S", 0.1)
    hurried = best_first(LARGER, time_limit_s=0.1)
    found = search_in_stages(LARGER, time_limit_s=0.5)
    assert found.cost_words <= hurried.cost_words  # how much less is a matter of time
    assert found.lower_bound_words <= found.cost_words
    verdict = check(LARGER, found.schedule)
    assert verdict.legal
    assert verdict.cost_words == found.cost_words


def test_an_interrupt_between_the_stages_keeps_what_the_first_one_found(monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(in_stages, "_MOMENT_S", 1e-9)
    monkeypatch.setattr(in_stages, "find_schedule", interrupted)
    found = search_in_stages(GAME)
    assert found.ending is Ending.INTERRUPTED
    assert check(GAME, found.schedule).legal


def test_an_interrupt_in_the_first_stage_ends_the_search(monkeypatch) -> None:
    quick = best_first(LARGER, time_limit_s=0.1)
    monkeypatch.setattr(in_stages, "best_first", lambda *_, **__: in_stages.replace(quick, ending=Ending.INTERRUPTED))
    monkeypatch.setattr(in_stages, "find_schedule", partial(pytest.fail, "no stage after an interrupt"))
    assert search_in_stages(LARGER).ending is Ending.INTERRUPTED
