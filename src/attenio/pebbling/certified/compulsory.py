"""Compulsory words: every input that is needed is loaded once, every computed output is stored once.

Theorem: docs/theory/graph_bounds.md. Holds for every variant.
"""

import time

from attenio.pebbling.certified.bound import GraphBound, Theorem
from attenio.pebbling.game import Game, Variant


def compulsory_bound(game: Game) -> GraphBound:
    """The inputs that computed values need, and the computed outputs."""
    began = time.monotonic()
    words = game.graph.compulsory_words
    return GraphBound(
        theorem=Theorem.COMPULSORY,
        words=words,
        variants=frozenset(Variant),
        citation="Hong and Kung 1981",
        witness=None,
        seconds=time.monotonic() - began,
    )
