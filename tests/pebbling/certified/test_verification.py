"""A witness that does not prove its bound is refused."""

import time
from dataclasses import replace

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.pebbling import ComputationGraph, Game, Variant
from attenio.pebbling.certified import counting, graph_bounds, hong_kung, pairs, spectral, verify, wavefront
from attenio.pebbling.certified.bound import GraphBound, compulsory_bound
from attenio.pebbling.graphs.fft import fft
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.pyramid import pyramid

from .games import lines_of_a_plane


def soon() -> float:
    return time.monotonic() + 20


def refused(game: Game, bound: GraphBound, message: str, **changes: object) -> None:
    verify(game, bound)
    with pytest.raises(InvalidInput, match=message):
        verify(game, replace(bound, witness=replace(bound.witness, **changes)))


PYRAMID = Game(graph=pyramid(6), red=3, variant=Variant.ONE_SHOT)


def test_a_compulsory_bound_cannot_be_raised():
    bound = compulsory_bound(PYRAMID)
    with pytest.raises(InvalidInput, match="proves 8 words, not 9"):
        verify(PYRAMID, replace(bound, words=9))


def test_a_missing_witness_is_refused():
    bound = wavefront.wavefront_bound(PYRAMID, deadline=soon())
    with pytest.raises(InvalidInput, match="missing"):
        verify(PYRAMID, replace(bound, witness=None))


def test_a_partition_with_too_many_parts_is_refused():
    game = Game(graph=lines_of_a_plane(5), red=4, sliding=True)
    bound = hong_kung.partition_bound(game, deadline=soon())
    refused(game, bound, "suffice", epochs=bound.witness.epochs + 1)
    refused(game, bound, "cannot move", epoch_words=0)


def test_minimum_sets_are_refused_for_the_partial_game():
    game = Game(graph=lines_of_a_plane(3), red=4, variant=Variant.PARTIAL)
    bound = hong_kung.partition_bound(game, deadline=soon())
    refused(game, bound, "minimum sets", loads_only=False)


@pytest.mark.parametrize("variant", [Variant.STANDARD, Variant.PARTIAL])
def test_counts_that_are_too_small_are_refused(variant):
    game = Game(graph=fft(32), red=3, variant=variant)
    bound = counting.counting_bound(game, deadline=soon())
    refused(game, bound, "may cover", later=bound.witness.later - 1)
    refused(game, bound, "may cover", first=bound.witness.first - 1)
    refused(game, bound, "no number", later=0)


def test_pairs_that_are_not_there_are_refused():
    game = Game(graph=product(4, 4, 4), red=4)
    bound = pairs.pair_bound(game)
    rows = bound.witness.pairs
    refused(game, bound, "twice", pairs=np.concatenate([rows, rows[:1]]))
    swapped = rows.copy()
    swapped[0, 1] = swapped[-1, 1]
    refused(game, bound, "no such two inputs", pairs=swapped)
    followed = rows.copy()
    followed[0, 3] = followed[0, 0]
    refused(game, bound, "no such follower", pairs=followed)
    refused(game, bound, "proves", pairs=rows[::2] * [1, 1, 1, 0] - [0, 0, 0, 1])


@pytest.mark.parametrize(
    "game",
    [
        PYRAMID,
        Game(graph=pyramid(6), red=2, variant=Variant.ONE_SHOT, sliding=True),
        Game(graph=pyramid(6), red=2, variant=Variant.PARTIAL),
    ],
    ids=["one-shot", "sliding", "partial"],
)
def test_a_flow_that_is_none_is_refused(game):
    bound = wavefront.wavefront_bound(game, deadline=soon())
    first, *others = bound.witness.moments

    def with_arcs(arcs: np.ndarray) -> tuple:
        return (replace(first, arcs=arcs), *others)

    refused(game, bound, "appears or vanishes", moments=with_arcs(first.arcs[1:]))
    refused(game, bound, "exceed|more flows", moments=with_arcs(first.arcs * [1, 1, 3]))
    refused(game, bound, "not in the network", moments=with_arcs(first.arcs[:, [1, 0, 2]]))
    refused(game, bound, "no amount", moments=with_arcs(first.arcs * [1, 1, 0]))
    refused(game, bound, "exceed|proves", moments=(first, first, *others))
    refused(game, bound, "proves", moments=tuple(others))
    refused(game, bound, "not computed", moments=(replace(first, vertex=0), *others))


def test_a_flow_of_one_game_is_refused_for_a_game_with_more_red_pebbles():
    bound = wavefront.wavefront_bound(PYRAMID, deadline=soon())
    with pytest.raises(InvalidInput, match="proves"):
        verify(Game(graph=PYRAMID.graph, red=4, variant=Variant.ONE_SHOT), bound)


def test_eigenvalues_that_are_too_large_are_refused():
    game = Game(graph=product(4, 4, 4), red=4, variant=Variant.ONE_SHOT)
    bound = spectral.spectral_bound(game, deadline=soon())
    refused(game, bound, "smaller than claimed", smallest=bound.witness.smallest * 1.001)
    refused(game, bound, "not those", blocks=bound.witness.blocks[1:])
    refused(game, bound, "segments", segments=0)
    refused(game, bound, "smaller than claimed", blocks=np.full_like(bound.witness.blocks, -1))


def test_blocks_of_a_large_graph_can_be_checked(monkeypatch):
    monkeypatch.setattr(spectral, "_LARGEST_BLOCK", 40)
    game = Game(graph=product(4, 4, 8), red=4, variant=Variant.ONE_SHOT)
    bound = spectral.spectral_bound(game, deadline=soon())
    verify(game, bound)
    assert bound.words >= game.graph.compulsory_words


def test_a_value_heavier_than_the_memory_that_is_never_loaded_does_not_spoil_a_witness():
    graph = ComputationGraph.from_parents({"x": ["a"], "i": []}, outputs=["x", "i"], weights={"i": 4})
    game = Game(graph=graph, red=2)
    for bound in graph_bounds(game):
        verify(game, bound)
