"""Which tokens the ranks of a layout in strips own: a zigzag share, or tokens of the rows that they compute.

A rank has the rows of its strip and its own keys in any case. Own tokens that are among its rows it need not receive
at all, neither as rows nor as keys. Late strips have fewer rows than their ranks own, early ones more; what is left of
early rows goes to late ranks, for which it is keys.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from attenio.cluster.partition import Sharding, even_sizes, share_sizes
from attenio.cluster.spans import Span, Tokens


class Owners(Enum):
    """Who owns a token: zigzag shares, whatever is computed, or the ranks that compute its row."""

    ZIGZAG = "zigzag"
    ROWS = "rows"


@dataclass(frozen=True)
class Places:
    """The rows [start, stop) that some places have, and the numbers of these."""

    start: int
    stop: int
    numbers: range


@lru_cache(maxsize=64)
def zigzag_homes(tokens: int, ranks: int) -> tuple[Tokens, ...]:
    """An early and a late chunk for every rank, as ``partition`` shares tokens out."""
    chunks = even_sizes(tokens, 2 * ranks).tolist()
    return _zigzag(Tokens.of([(0, tokens)]), [(chunks[p], chunks[-1 - p]) for p in range(ranks)])


def _zigzag(tokens: Tokens, halves: list[tuple[int, int]]) -> tuple[Tokens, ...]:
    """Tokens in order, an early and a late piece of these sizes for everyone."""
    cut = pieces(tokens, [early for early, _ in halves] + [late for _, late in reversed(halves)])
    return tuple(Tokens.union([cut[i], cut[-1 - i]]) for i in range(len(halves)))


def homes_in_rows(tokens: int, heads: int, groups: tuple[Places, ...], top: tuple[Tokens, ...]) -> tuple[Tokens, ...]:
    """Tokens of their rows for every rank, and for those that have too few rows what others leave.

    ``groups`` has the places of the first rows, each of which has the rows of ``top``, and then strip after strip.
    """
    sizes = share_sizes(tokens, heads * sum(len(each.numbers) for each in groups), Sharding.ZIGZAG).tolist()
    found: list[list[Span]] = [[] for _ in sizes]
    left: list[Span] = []
    for place, rows in enumerate(top):
        left += _shared(rows, list(range(place * heads, (place + 1) * heads)), sizes, found)
    for group in groups[1:]:
        ranks = list(range(group.numbers.start * heads, group.numbers.stop * heads))
        left += _shared(Tokens.of([(group.start, group.stop)]), ranks, sizes, found)
    missing = [size - sum(stop - start for start, stop in spans) for size, spans in zip(sizes, found, strict=True)]
    more = _zigzag(Tokens.of(left), [(count // 2, count - count // 2) for count in missing])
    return tuple(Tokens.of([*mine, *others.spans]) for mine, others in zip(found, more, strict=True))


def _shared(rows: Tokens, ranks: list[int], sizes: list[int], found: list[list[Span]]) -> list[Span]:
    """Share rows out among ranks, as many to each as it may own; what is left, from the middle."""
    wanted = [sizes[rank] for rank in ranks]
    over = len(rows) - sum(wanted)
    if over < 0:
        edges = [len(rows) * i // len(ranks) for i in range(len(ranks) + 1)]
        wanted = [min(stop - start, size) for (start, stop), size in zip(pairwise(edges), wanted, strict=True)]
        over = len(rows) - sum(wanted)
    early = (len(rows) - over) // 2
    first, rest, last = pieces(rows, [early, over, len(rows) - over - early])
    mine = Tokens.union([first, last])
    for rank, some in zip(ranks, _zigzag(mine, [(count // 2, count - count // 2) for count in wanted]), strict=True):
        found[rank] += some.spans
    return list(rest.spans)


def pieces(tokens: Tokens, sizes: list[int]) -> list[Tokens]:
    """Tokens in order, cut into pieces of these sizes."""
    found, spans, at = [], list(tokens.spans), 0
    for size in sizes:
        piece: list[Span] = []
        while size > 0 and at < len(spans):
            start, stop = spans[at]
            end = min(stop, start + size)
            piece.append((start, end))
            size -= end - start
            if end == stop:
                at += 1
            else:
                spans[at] = (end, stop)
        found.append(Tokens(tuple(piece)))
    return found
