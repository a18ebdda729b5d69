"""A time limit is a deadline for finding and for checking: on a clock that only moves with the work, it is met."""

import time as real_time
from types import SimpleNamespace

import numpy as np
import pytest

from attenio.pebbling import Game, Variant, certified
from attenio.pebbling.certified import (
    OutOfTime,
    certified_bounds,
    graph_bounds,
    hong_kung,
    spectral,
    verification,
    verify,
    wavefront,
)
from attenio.pebbling.certified import bound as bound_module
from attenio.pebbling.graphs.fft import fft
from attenio.pebbling.graphs.product import product

from .games import lines_of_a_plane

# Seconds for the cube of a block's size, such that the largest one here takes eight seconds by this clock.
LARGEST_BLOCK, SECONDS_PER_CUBE = 200, 1e-6


class Clock:
    """Time that passes by ten milliseconds whenever somebody looks, and by what the work is said to take."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        self.now += 0.01
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(spectral, "_LARGEST_BLOCK", LARGEST_BLOCK)
    monkeypatch.setattr(spectral, "_TIMED_BLOCK", LARGEST_BLOCK // 10)
    for module in (bound_module, certified, hong_kung, spectral, verification, wavefront):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))

    def slow(solver, seconds):
        def solve(matrix):
            clock.now += seconds * len(matrix) ** 3
            return solver(matrix)

        return solve

    monkeypatch.setattr(np.linalg, "eigvalsh", slow(np.linalg.eigvalsh, SECONDS_PER_CUBE))
    monkeypatch.setattr(np.linalg, "eigh", slow(np.linalg.eigh, 4 * SECONDS_PER_CUBE))
    return clock


@pytest.mark.parametrize("limit_s", [0.0, 1.0, 6.0])
def test_finding_and_checking_end_at_the_limit(clock, limit_s):
    game = Game(graph=product(7, 7, 7), red=16, variant=Variant.ONE_SHOT)
    began = clock.now
    found = certified_bounds(game, time_limit_s=limit_s)
    assert clock.now - began <= limit_s + 0.5
    names = {bound.theorem for bound in found.bounds if not bound.finished} | set(found.unchecked)
    assert certified.Theorem.SPECTRAL in names, "its larger blocks take longer than any of these limits"


def test_a_block_is_left_out_when_there_is_time_to_find_it_and_none_to_check_it(clock):
    game = Game(graph=product(5, 5, 5), red=4, variant=Variant.ONE_SHOT)
    deadline = clock.now + 1000
    found = spectral.spectral_bound(game, deadline=deadline, check_seconds=1.0)
    assert not found.finished
    began = clock.now
    verify(game, found, deadline=began + 1.0)
    assert clock.now - began <= 1.0
    assert spectral.spectral_bound(game, deadline=deadline, check_seconds=1000.0).finished


@pytest.mark.parametrize("variant", list(Variant))
def test_enough_time_finishes_and_checks_everything(clock, variant):
    game = Game(graph=lines_of_a_plane(4), red=5, variant=variant)
    found = certified_bounds(game, time_limit_s=1000.0)
    assert not found.unchecked
    assert all(bound.finished for bound in found.bounds)
    assert [bound.words for bound in found.bounds] == [
        bound.words for bound in graph_bounds(game, time_limit_s=real_time.monotonic())
    ]


@pytest.mark.parametrize(
    "game",
    [
        Game(graph=lines_of_a_plane(6), red=4, sliding=True),
        Game(graph=fft(32), red=3, variant=Variant.ONE_SHOT),
    ],
)
def test_a_check_that_is_out_of_time_says_so_and_certifies_nothing(clock, game):
    for bound in graph_bounds(game, time_limit_s=1000.0):
        if bound.theorem in {certified.Theorem.PARTITION, certified.Theorem.WAVEFRONT, certified.Theorem.SPECTRAL}:
            verify(game, bound)
            with pytest.raises(OutOfTime):
                verify(game, bound, deadline=clock.now)
