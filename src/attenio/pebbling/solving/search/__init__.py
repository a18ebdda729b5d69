"""Exact optima by best-first search over positions."""

from attenio.pebbling.solving.search.in_stages import search_in_stages
from attenio.pebbling.solving.search.solver import best_first

__all__ = ["best_first", "search_in_stages"]
