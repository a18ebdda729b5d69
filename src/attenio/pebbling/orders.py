"""Orders of things that nothing tells apart at first, and sets of them as bits of an integer."""

from collections.abc import Iterator, Sequence
from operator import ne

# What tells things apart.
Marks = Sequence[tuple[int, ...]]


def of_equals(every: Sequence[int]) -> list[list[int]]:
    """Where equals are: a list of places for each that there is more than once."""
    places = ([place for place, each in enumerate(every) if each == one] for one in dict.fromkeys(every))
    return [each for each in places if len(each) > 1]


def in_order(alike: Sequence[Sequence[int]], marks: Marks) -> list[int]:
    """For every place who comes there, so that those that are alike are in order of their marks; none if they are."""
    order = list(range(len(marks)))
    for some in alike:
        for place, each in zip(some, sorted(some, key=marks.__getitem__), strict=True):
            order[place] = each
    return order if any(map(ne, order, range(len(order)))) else []


def bits(members: int) -> Iterator[int]:
    """The members of a set, the lowest first."""
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1


def picked(members: int, order: Sequence[int]) -> int:
    """The set whose member at each place was at the place that the order has there."""
    found = 0
    for new, old in enumerate(order):
        found |= (members >> old & 1) << new
    return found
