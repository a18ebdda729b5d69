"""How many terms become one sum: in a chain, in a balanced tree, or all at once."""

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

# The parents of each vertex, in the order in which vertices are made.
Parents = dict[str, tuple[str, ...]]


class Accumulation(Enum):
    """How the terms of a sum are put together."""

    CHAIN = "chain"  # one after the other, each product made as it is added
    TREE = "tree"  # products first, then their sums in a balanced binary tree
    WIDE = "wide"  # products first, then one vertex that needs them all: what the partial game fills edge by edge


def stage(total: str, which: str) -> str:
    """The name of a stage on the way to ``total``.

    >>> stage("S[0,1]", "2"), stage("s", "2")
    ('S[0,1;2]', 's;2')
    """
    return f"{total[:-1]};{which}]" if total.endswith("]") else f"{total};{which}"


def vertices_of_sum(terms: int, how: Accumulation) -> int:
    """How many vertices ``accumulate`` adds for a sum of so many products of two or more factors.

    >>> [vertices_of_sum(4, how) for how in Accumulation]
    [4, 7, 5]
    """
    if terms == 1:
        return 1
    match how:
        case Accumulation.CHAIN:
            return terms
        case Accumulation.TREE:
            return 2 * terms - 1
        case Accumulation.WIDE:
            return terms + 1
        case _:
            assert_never(how)


def accumulate(parents: Parents, total: str, terms: Sequence[tuple[str, ...]], how: Accumulation) -> None:
    """Add the vertices that compute ``total``, the sum over ``terms`` of the product of each term's factors.

    The stages of a chain are named after the number of terms summed so far, products ``*`` and their number. A sum of
    one term is that term's product, and a term with a single factor needs no product.

    >>> made: Parents = {}
    >>> accumulate(made, "C[0,0]", [("a", "b"), ("c", "d")], Accumulation.CHAIN)
    >>> made
    {'C[0,0;1]': ('a', 'b'), 'C[0,0]': ('C[0,0;1]', 'c', 'd')}
    >>> made: Parents = {}
    >>> accumulate(made, "C[0,0]", [("a", "b"), ("c", "d")], Accumulation.WIDE)
    >>> made
    {'C[0,0;*1]': ('a', 'b'), 'C[0,0;*2]': ('c', 'd'), 'C[0,0]': ('C[0,0;*1]', 'C[0,0;*2]')}
    """
    if how is Accumulation.CHAIN:
        before: tuple[str, ...] = ()
        for number, factors in enumerate(terms, 1):
            name = total if number == len(terms) else stage(total, str(number))
            parents[name] = (*before, *factors)
            before = (name,)
        return
    if len(terms) == 1:
        parents[total] = terms[0]
        return
    leaves = []
    for number, factors in enumerate(terms, 1):
        if len(factors) == 1:
            leaves.append(factors[0])
            continue
        leaves.append(stage(total, f"*{number}"))
        parents[leaves[-1]] = factors
    match how:
        case Accumulation.WIDE:
            parents[total] = tuple(leaves)
        case Accumulation.TREE:
            _tree(parents, total, leaves)
        case _:
            assert_never(how)


def _tree(parents: Parents, total: str, leaves: list[str]) -> None:
    level = [(leaf, number, number) for number, leaf in enumerate(leaves, 1)]
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            whole = len(level) == 2
            name = total if whole else stage(total, f"{left[1]}-{right[2]}")
            parents[name] = (left[0], right[0])
            above.append((name, left[1], right[2]))
        if len(level) % 2:
            above.append(level[-1])
        level = above
