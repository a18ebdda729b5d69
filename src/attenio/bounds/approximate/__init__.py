"""Lower bounds for approximate attention by monomial features."""

from attenio.bounds.approximate.growth import approximate_growth
from attenio.bounds.approximate.monomial_epochs import (
    monomial_constant,
    monomial_epoch_words,
    monomial_epochs,
    monomials_without_squares,
)
from attenio.bounds.approximate.unread_values import skippable_keys, unread_values

__all__ = [
    "approximate_growth",
    "monomial_constant",
    "monomial_epoch_words",
    "monomial_epochs",
    "monomials_without_squares",
    "skippable_keys",
    "unread_values",
]
