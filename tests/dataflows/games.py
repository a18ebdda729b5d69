"""Runs replayed as pebble games."""

from attenio.bounds import bounds_for, largest_ordinary
from attenio.dataflows import execute
from attenio.pebbling.checking import check
from attenio.pebbling.replay import replay
from attenio.planning.plan import Dataflow

from .laws import planned


def is_a_legal_game(workload, dataflow: Dataflow, tiles) -> None:
    """A run is a legal game that costs its counted words on its counted memory, and no bound is above it."""
    run = execute(planned(workload, dataflow, tiles, 10**6), record=True)
    played = replay(run)
    verdict = check(played.game, played.schedule)
    assert verdict.complaint is None
    assert (verdict.cost_words, played.game.red) == (run.moved_words, run.peak_words)
    assert verdict.cost_words >= largest_ordinary(bounds_for(workload, played.game.red)).words
