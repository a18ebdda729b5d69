"""Words of rows and keys in the gradient, for many cases at once, as ``costs.backward`` has them."""

import numpy as np

from attenio.planning.sweeping.cases import Cases, Ints

__all__ = ["all_gradients", "resident_key_words", "visit_words", "visiting_words"]


def visiting_words(cases: Cases) -> Ints:
    """Words of a row that passes beside its scores: Q, dO, the log-sum-exp, D and one score's gradient."""
    return np.asarray(cases.d + cases.value_dim + 3 * cases.intermediate_words)


def visit_words(cases: Cases) -> Ints:
    """Words that every visit of a row costs: Q, dO, the log-sum-exp and D."""
    return np.asarray(cases.d + cases.value_dim + 2 * cases.intermediate_words)


def resident_key_words(cases: Cases, *, lean: bool) -> Ints:
    """Words of a key that stays: K, V, dV, and dK unless it is made afterwards."""
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    return np.asarray(d + dv + (dv if lean else d + dv) * w)


def all_gradients(cases: Cases) -> Ints:
    """Words of K and V read once, and of all gradients written once."""
    both = cases.d + cases.value_dim
    return np.asarray((cases.band.touched_keys + cases.keys) * both + cases.group * cases.rows * cases.d)
