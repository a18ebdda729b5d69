"""Whole products: in a tiny fast memory an epoch's words and products come in whole numbers, and that counts."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, any_of, larger, smaller, where

# Beyond this whole numbers are some two per cent from what reals say; epochs have up to three times that and a word.
LARGEST_FAST_WORDS = 148
LARGEST_BUDGET = 3 * LARGEST_FAST_WORDS + 1


def most_whole_products(words: int) -> npt.NDArray[np.int64]:
    """For every budget up to this many words, the most products that an epoch does whose pairs all take a word each.

    An epoch with u pairs and w words of a column of inputs and outputs does up to min(u, floor(w²/4)) of its products.

    >>> most_whole_products(12).tolist()
    [0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8]
    """
    pairs = np.arange(words + 1, dtype=np.int64)
    done = np.zeros((words + 1, words + 1), dtype=np.int64)  # [words of all columns, pairs]
    for spent in range(2, words + 1):
        done[spent] = done[spent - 1]
        for column in range(2, spent + 1):
            done[spent] = np.maximum(done[spent], done[spent - column] + np.minimum(pairs, column * column // 4))
            if column * column // 4 >= words:
                break
    most = [max(int(done[budget - held, held]) for held in range(budget + 1)) for budget in range(words + 1)]
    return np.array(most, dtype=np.int64)


@lru_cache(maxsize=1)
def _best_epochs() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """For every fast memory, the length of the epoch with the most words for a product, and its products."""
    most = most_whole_products(LARGEST_BUDGET)
    lengths, products = np.ones(LARGEST_FAST_WORDS + 1), np.ones(LARGEST_FAST_WORDS + 1)
    for fast_words in range(1, LARGEST_FAST_WORDS + 1):
        tried = [length for length in range(fast_words, 2 * fast_words + 2) if most[fast_words + length]]
        lengths[fast_words] = max(tried, key=lambda length: length / most[fast_words + length], default=1)
        products[fast_words] = max(1, most[fast_words + int(lengths[fast_words])])
    return lengths, products


def best_whole_epoch(fast_words: int) -> tuple[int, int]:
    """The length of the best epoch of a tiny fast memory, and the products that it does at most.

    >>> best_whole_epoch(16)
    (27, 50)
    """
    lengths, products = _best_epochs()
    return int(lengths[fast_words]), int(products[fast_words])


# The same for an epoch of five-products, up to 16 words: these take seconds to find, and a test finds the first again.
_FIVE_LENGTHS = np.array([1, 3, 2, 4, 4, 11, 10, 14, 13, 12, 15, 20, 19, 25, 24, 23, 32], dtype=float)
_FIVE_PRODUCTS = np.array([1, 1, 1, 3, 4, 12, 12, 18, 18, 18, 24, 34, 34, 46, 46, 46, 66], dtype=float)


def budget_without_fresh_pairs(narrow: Floats) -> Floats:
    """The most words of an epoch with no room for two rows of this width, of which a pair could be made afresh."""
    return 2.0 * narrow - 1.0


def budget_with_few_fresh_pairs(d: Floats) -> Floats:
    """The most words of an epoch of the forward pass that does no more with pairs made afresh than without.

    Up to 3d²/2 words that was computed for widths up to 16, and what holds for a width holds for larger ones.
    """
    return larger(budget_without_fresh_pairs(d), smaller(1.5 * d * d, float(LARGEST_BUDGET)))


def whole_product_words(
    scores: Floats, products: Floats, budget: Floats, fast_words: Floats, units: Floats = 1.0, *, five: bool = False
) -> Floats:
    """Words for so many products of each of the pairs, of which one tick is free; nothing unless 3M + 1 <= budget.

    Up to that ``budget`` of words an epoch does no more with pairs that are made afresh than without.
    ``five`` counts all products of a gradient, for two ticks that are free.
    """
    largest = len(_FIVE_LENGTHS) - 1 if five else LARGEST_FAST_WORDS
    length: Floats
    done: Floats
    tiny = (fast_words <= largest) & (3.0 * fast_words + 1.0 <= budget)
    if not any_of(tiny):
        return where(tiny, 0.0, 0.0)
    lengths, most = (_FIVE_LENGTHS, _FIVE_PRODUCTS) if five else _best_epochs()
    if type(tiny) is bool:
        length, done = float(lengths[int(fast_words)]), float(most[int(fast_words)])
    else:
        place = np.where(tiny, fast_words, 1.0).astype(np.int64)
        length, done = lengths[place], most[place]
    leading, free = length * (scores * products / done), scores * (2.0 if five else 1.0)
    return where(tiny, whole_words(leading, free + units * (length - fast_words)), 0.0)
