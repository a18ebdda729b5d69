"""What products weigh in an epoch, and what it does with pairs that flow in: for strips along the edges of a mask."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from attenio.bounds.backward.gradient_rows import (
    Weights,
    budget_for,
    even_weights,
    weighed_products_of_held_pairs,
    weights,
)
from attenio.bounds.floats import Floats, any_of, larger, only_where, root, smaller, where
from attenio.bounds.pairs_made_elsewhere import most_by_held_pairs, words_for_held_pairs
from attenio.bounds.row_sums import budget_for as budget_with_sums
from attenio.bounds.row_sums import on_average_with_held_pairs
from attenio.bounds.row_sums import weights as row_weights
from attenio.workload import Direction


class Epoch(NamedTuple):
    """What products weigh: those of a pair, what a row may lack of it, and the words of a row times those of a key.

    ``held`` is the most that an epoch with so many words does with pairs that flow in, ``budget`` the words that it
    needs for so much where these weigh so many times as much. The clock counts ``free`` words for every row.
    """

    of_pair: Floats
    of_row: Floats
    room: Floats
    free: float
    held: Callable[[Floats], Floats]
    budget: Callable[[Floats, Floats], Floats]


def of_weights(weigh: Weights, room: Floats) -> Epoch:
    """An epoch by weights such as those of gradient rows."""

    def needed(work: Floats, times: Floats) -> Floats:
        return budget_for(work, (times * weigh[0], times * weigh[1], times * weigh[2]))

    return Epoch(weigh[2], 0.0, room, 0.0, lambda words: weighed_products_of_held_pairs(words, weigh), needed)


def of_row_sums(d: Floats, value_dim: Floats) -> Epoch:
    """An epoch of a forward pass, with the words that the sums of rows take."""
    (product, term), both = row_weights(d, value_dim), d + value_dim
    return Epoch(
        product * value_dim + term,
        term,
        both * (both + 1.0),
        1.0,
        lambda words: on_average_with_held_pairs(words, d, value_dim),
        lambda work, times: budget_with_sums(work, d, value_dim, times),
    )


def of_outputs(d: Floats, value_dim: Floats) -> Epoch:
    """An epoch of a forward pass without these words."""
    product, _ = row_weights(d, value_dim)
    weigh, both = (product, product, product * value_dim), d + value_dim
    raw = of_weights(weigh, both * both)

    of_held, of_words = partial(most_by_held_pairs, sums=False), partial(words_for_held_pairs, sums=False)

    def held(words: Floats) -> Floats:
        return smaller(raw.held(words), of_held(words, d, value_dim))

    def needed(work: Floats, times: Floats) -> Floats:
        fresh = 2.0 * root(work)
        may = times * raw.held(fresh) > work
        held_do_more = times * only_where(may, of_held, 0.0, fresh, d, value_dim) > work
        if not any_of(held_do_more):
            return fresh
        words = only_where(held_do_more, of_words, 0.0, work / times, d, value_dim)
        return where(held_do_more, smaller(fresh, larger(raw.budget(work, times), words)), fresh)

    return raw._replace(held=held, budget=needed)


def epochs_of(d: Floats, value_dim: Floats, direction: Direction, *, sums: bool) -> Iterator[Epoch]:
    """What products of a pass weigh, with the sums of rows or without."""
    both = d + value_dim
    if direction is not Direction.FORWARD:
        room = 2.0 * (d + both) * both
        yield of_weights(weights(d, value_dim), room)
        if any_of(value_dim > d):
            yield of_weights(even_weights(d, value_dim), room)
    elif sums:
        yield of_row_sums(d, value_dim)
    else:
        yield of_outputs(d, value_dim)
