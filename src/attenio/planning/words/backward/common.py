"""What several dataflows of the gradient have in common: rows that pass, keys that stay, and products afterwards."""

from attenio.masks.patterns.pattern import Counts
from attenio.planning.words.form import CountSum, Product, Sizes


def visit_words(sizes: Sizes) -> Counts:
    """Words that every visit of a row costs: Q, dO, the log-sum-exp and D."""
    return sizes.d + sizes.value_dim + 2 * sizes.intermediate_words


def visiting_words(sizes: Sizes) -> Counts:
    """Words of a row that passes beside its scores: Q, dO, the log-sum-exp, D and one score's gradient."""
    return sizes.d + sizes.value_dim + 3 * sizes.intermediate_words


def passing_words(sizes: Sizes) -> Counts:
    """The same with its dQ."""
    return visiting_words(sizes) + sizes.d * sizes.intermediate_words


def stationary_words(sizes: Sizes, *, lean: bool = False) -> Counts:
    """Words of a key that stays: K, V, dV, and dK unless it is made afterwards (lean)."""
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    return d + dv + (dv if lean else d + dv) * w


def all_gradients(sizes: Sizes) -> CountSum:
    """Words of a run for K and V read once, and for all gradients written once."""
    words: CountSum = sizes.rows * (sizes.group * sizes.d)
    words += (sizes.touched_keys + sizes.keys) * (sizes.d + sizes.value_dim)
    return words


def delta_words(sizes: Sizes) -> CountSum:
    """Words of a run for D: dO and O in, D out."""
    words: CountSum = sizes.touched_rows * (sizes.group * (2 * sizes.value_dim + sizes.intermediate_words))
    return words


def value_product(sizes: Sizes) -> Product:
    """dV from stored probabilities."""
    return Product("value_keys", "value_columns", width=sizes.value_dim, across=True)


def key_product(sizes: Sizes) -> Product:
    """dK from stored score gradients."""
    return Product("key_keys", "key_columns", width=sizes.d, across=True)


def query_product(sizes: Sizes) -> Product:
    """dQ from stored score gradients."""
    return Product("query_rows", "query_columns", width=sizes.d)
