"""No bound exceeds the optimum, each says more than the compulsory words somewhere, and each can be checked."""

import time
from dataclasses import replace
from typing import assert_never

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.pebbling import ComputationGraph, Game, Variant
from attenio.pebbling.certified import (
    GraphBound,
    Theorem,
    best_bound,
    counting,
    graph_bounds,
    hong_kung,
    pairs,
    spectral,
    verify,
    wavefront,
)
from attenio.pebbling.certified.bound import compulsory_bound
from attenio.pebbling.graphs.attention import Head, attention
from attenio.pebbling.graphs.fft import fft
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.pyramid import pyramid

from .exhaustive import optimum
from .games import lines_of_a_plane, random_design, random_graph, tight_games


@pytest.mark.parametrize("seed", range(18))
def test_no_bound_exceeds_the_optimum_of_a_random_game(seed):
    for game in tight_games(random_graph(seed)):
        least = optimum(game)
        for bound in graph_bounds(game):
            verify(game, bound)
            assert bound.words <= least, (bound.theorem, game.variant, game.sliding, game.red)


@pytest.mark.parametrize("seed", range(8))
def test_no_bound_exceeds_the_optimum_of_a_game_with_many_uses_of_few_inputs(seed):
    for game in tight_games(random_design(seed)):
        least = optimum(game)
        assert all(bound.words <= least for bound in graph_bounds(game))


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("red", [2**29, 2**32, 2**40])
def test_memory_that_holds_everything_leaves_the_compulsory_words(red, variant):
    """Squares of such memories overflow 64 bits."""
    game = Game(graph=product(3, 3, 3), red=red, variant=variant)
    for theorem in (Theorem.COUNTING, Theorem.PAIRS):
        bound = found(game, theorem)
        verify(game, bound)
        assert bound.words <= game.graph.compulsory_words


def found(game: Game, theorem: Theorem) -> GraphBound:
    deadline = time.monotonic() + 20
    match theorem:
        case Theorem.COMPULSORY:
            return compulsory_bound(game)
        case Theorem.PARTITION:
            return hong_kung.partition_bound(game, deadline=deadline)
        case Theorem.COUNTING:
            return counting.counting_bound(game, deadline=deadline)
        case Theorem.PAIRS:
            return pairs.pair_bound(game)
        case Theorem.WAVEFRONT:
            return wavefront.wavefront_bound(game, deadline=deadline)
        case Theorem.SPECTRAL:
            return spectral.spectral_bound(game, deadline=deadline)
        case _:
            assert_never(theorem)


BEYOND_COMPULSORY = [
    (Theorem.PARTITION, Game(graph=lines_of_a_plane(7), red=4, sliding=True)),
    (Theorem.COUNTING, Game(graph=fft(128), red=3)),
    (Theorem.COUNTING, Game(graph=fft(128), red=3, variant=Variant.ONE_SHOT)),
    (Theorem.COUNTING, Game(graph=fft(256), red=2, variant=Variant.PARTIAL)),
    (Theorem.PAIRS, Game(graph=product(6, 6, 6), red=4)),
    (Theorem.PAIRS, Game(graph=product(6, 6, 6), red=4, variant=Variant.ONE_SHOT, sliding=True)),
    (Theorem.PAIRS, Game(graph=product(8, 8, 8), red=4, variant=Variant.PARTIAL)),
    (Theorem.WAVEFRONT, Game(graph=pyramid(6), red=3, variant=Variant.ONE_SHOT)),
    (Theorem.WAVEFRONT, Game(graph=pyramid(6), red=2, variant=Variant.ONE_SHOT, sliding=True)),
    (Theorem.WAVEFRONT, Game(graph=pyramid(6), red=2, variant=Variant.PARTIAL)),
    (Theorem.WAVEFRONT, Game(graph=attention(Head(rows=3, keys=3, d=2)), red=5, variant=Variant.ONE_SHOT)),
    (Theorem.SPECTRAL, Game(graph=product(5, 5, 5), red=4, variant=Variant.ONE_SHOT)),
    (Theorem.SPECTRAL, Game(graph=product(4, 4, 4), red=3, variant=Variant.PARTIAL)),
    (Theorem.SPECTRAL, Game(graph=fft(64), red=3, variant=Variant.ONE_SHOT)),
]


@pytest.mark.parametrize(
    ("theorem", "game"), BEYOND_COMPULSORY, ids=lambda each: getattr(each, "value", None) or each.graph.name
)
def test_every_theorem_says_more_than_the_compulsory_words_somewhere(theorem, game):
    bound = found(game, theorem)
    verify(game, bound)
    assert bound.words > game.graph.compulsory_words
    with pytest.raises(InvalidInput, match="proves"):
        verify(game, replace(bound, words=bound.words + 1))


def test_a_product_is_bounded_as_in_the_theorem_about_products():
    n, red = 12, 16
    bound = found(Game(graph=product(n, n, n), red=red), Theorem.PAIRS)
    # within the rounding of epochs to whole words and vertices
    assert bound.words >= 0.95 * (2 * n**3 / red**0.5 - 2 * red)


def test_the_standard_game_gets_no_bound_that_forbids_recomputation():
    game = Game(graph=pyramid(4), red=3)
    assert {bound.theorem for bound in graph_bounds(game)} == {
        Theorem.COMPULSORY,
        Theorem.PAIRS,
        Theorem.PARTITION,
        Theorem.COUNTING,
    }
    one_shot = Game(graph=pyramid(4), red=3, variant=Variant.ONE_SHOT)
    with pytest.raises(InvalidInput, match="does not hold for the standard game"):
        verify(game, found(one_shot, Theorem.WAVEFRONT))


def test_recomputation_beats_a_wavefront():
    # the chain from x can be made again for free where it is needed a second time
    edges = [("x", "a"), ("a", "b"), ("p", "c"), ("b", "c"), ("c", "d"), ("q", "d"), ("d", "e"), ("r", "e"), ("s", "e")]
    graph = ComputationGraph.from_edges([*edges, ("e", "f"), ("b", "f"), ("x", "f")])
    one_shot = Game(graph=graph, red=4, variant=Variant.ONE_SHOT)
    assert optimum(Game(graph=graph, red=4)) < found(one_shot, Theorem.WAVEFRONT).words <= optimum(one_shot)


def test_a_graph_of_inputs_needs_nothing():
    graph = ComputationGraph.from_parents({"a": ()}, outputs=["a"])
    for variant in Variant:
        bounds = graph_bounds(Game(graph=graph, red=1, variant=variant))
        assert [bound.words for bound in bounds] == [0]


def test_without_time_there_are_still_true_bounds():
    game = Game(graph=fft(32), red=3, variant=Variant.ONE_SHOT)
    hurried = graph_bounds(game, time_limit_s=0)
    patient = {bound.theorem: bound.words for bound in graph_bounds(game)}
    assert {bound.theorem for bound in hurried} == set(patient)
    for bound in hurried:
        verify(game, bound)
        assert bound.words <= patient[bound.theorem]
    assert best_bound(hurried).words >= game.graph.compulsory_words


def test_an_interrupt_leaves_what_was_found():
    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    game = Game(graph=fft(8), red=3, variant=Variant.ONE_SHOT)
    assert [bound.theorem for bound in graph_bounds(game, progress=stop)] == [
        Theorem.COMPULSORY,
        Theorem.PAIRS,
        Theorem.COUNTING,
    ]


def test_times_are_measured():
    began = time.monotonic()
    bounds = graph_bounds(Game(graph=fft(8), red=3, variant=Variant.ONE_SHOT))
    assert 0 < sum(bound.seconds for bound in bounds) <= time.monotonic() - began


def test_more_red_pebbles_never_raise_a_bound_on_products():
    words = [found(Game(graph=product(8, 8, 8), red=red), Theorem.PAIRS).words for red in (4, 6, 9, 13, 20)]
    assert np.all(np.diff(words) <= 0)
