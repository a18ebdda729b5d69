"""Whole products: in a tiny fast memory an epoch's words and products come in whole numbers, and that counts."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, where

# Beyond this the whole numbers are within four per cent of what reals say.
LARGEST_FAST_WORDS = 64


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
    most = most_whole_products(3 * LARGEST_FAST_WORDS + 1)
    lengths, products = np.ones(LARGEST_FAST_WORDS + 1), np.ones(LARGEST_FAST_WORDS + 1)
    for fast_words in range(1, LARGEST_FAST_WORDS + 1):
        tried = [length for length in range(fast_words, 2 * fast_words + 2) if most[fast_words + length]]
        lengths[fast_words] = max(tried, key=lambda length: length / most[fast_words + length], default=1)
        products[fast_words] = max(1, most[fast_words + int(lengths[fast_words])])
    return lengths, products


# The same for an epoch of five-products, up to 16 words: these take seconds to find, and a test finds the first again.
_FIVE_LENGTHS = np.array([1, 3, 2, 4, 4, 11, 10, 14, 13, 12, 15, 20, 19, 25, 24, 23, 32], dtype=float)
_FIVE_PRODUCTS = np.array([1, 1, 1, 3, 4, 12, 12, 18, 18, 18, 24, 34, 34, 46, 46, 46, 66], dtype=float)


def whole_product_words(
    scores: Floats, products: Floats, narrow: Floats, fast_words: Floats, units: Floats = 1.0, *, five: bool = False
) -> Floats:
    """Words for so many products of each of the pairs, of which one tick is free; nothing unless 3M + 1 < 2 narrow.

    ``narrow`` is the width of the rows that a pair would be made afresh of: an epoch has no room for two of them.
    ``five`` counts all products of a gradient, for two ticks that are free.
    """
    lengths, most = (_FIVE_LENGTHS, _FIVE_PRODUCTS) if five else _best_epochs()
    length: Floats
    done: Floats
    tiny = (fast_words < len(lengths)) & (3.0 * fast_words + 1.0 < 2.0 * narrow)
    if type(tiny) is bool:
        if not tiny:
            return 0.0
        length, done = float(lengths[int(fast_words)]), float(most[int(fast_words)])
    else:
        place = np.where(tiny, fast_words, 1.0).astype(np.int64)
        length, done = lengths[place], most[place]
    leading, free = length * (scores * products / done), scores * (2.0 if five else 1.0)
    return where(tiny, whole_words(leading, free + units * (length - fast_words)), 0.0)
