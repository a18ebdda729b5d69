"""Proven lower bounds, one theorem a file."""

from attenio.bounds.attention import bounds_for, largest_absolute, largest_ordinary, lower_bounds, ordinary_words
from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.bounds.product import product_words
from attenio.bounds.rank_one_tile import rank_one_product_words, rank_one_tile
from attenio.bounds.tall_skinny import tall_skinny_product_words

__all__ = [
    "LowerBound",
    "Strength",
    "bounds_for",
    "largest_absolute",
    "largest_ordinary",
    "lower_bounds",
    "ordinary_words",
    "product_words",
    "rank_one_product_words",
    "rank_one_tile",
    "tall_skinny_product_words",
]
