"""Games of few words: lines that come and go, and the triangles that are seen; no game sees more than a share of cost.

    .venv/bin/python tests/bounds/triangle_games.py 7

says whether, in a fast memory of so many words, a game ever sees more than the share that few words use.

Points are left, right or colours; a sum joins left and right and costs 2, a factor joins either of them and a colour
and costs 1. A line comes in the place of another if there are as many as words; a sum may come first and take its place
after. A triangle is seen when its sides are there together, and again only if at some time since fewer than two of them
were there, and not both its sum and a factor of its colour.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, combinations, product

from attenio.bounds.few_words import PRODUCTS_FOR_A_WORD

Line = tuple[int, int, int]  # its kind, which is that of the point that it lacks, and the points at its ends
Triangle = tuple[int, int, int]  # its left, its right and its colour
State = tuple[frozenset[Line], frozenset[Triangle]]  # lines that are there, and triangles that are not seen again
SUM = 2
# In so many words triangles are remembered by their sums. Elsewhere games see no more than is claimed without it too,
# and there are fewer states.
REMEMBERED_BY_SUMS = 6


def sides(triangle: Triangle) -> tuple[Line, Line, Line]:
    left, right, colour = triangle
    return (0, right, colour), (1, left, colour), (SUM, left, right)


def cost(lines: Iterable[Line]) -> int:
    return sum([2 if line[0] == SUM else 1 for line in lines])


def triangles(lines: frozenset[Line]) -> frozenset[Triangle]:
    """Those whose sides are all there."""
    sums = [(left, right) for kind, left, right in lines if kind == SUM]
    return frozenset(
        [
            (left, right, colour)
            for left, right in sums
            for kind, end, colour in lines
            if kind == 1 and end == left and (0, right, colour) in lines
        ]
    )


def without(state: State, gone: tuple[Line, ...], words: int) -> State:
    """What is left: a triangle is forgotten where two sides go, unless its sum and a factor of its colour stay."""
    lines = state[0].difference(gone)
    colours = {end for kind, _, end in lines if kind != SUM and words == REMEMBERED_BY_SUMS}
    left = []
    for each in state[1]:
        first, second, total = (side in lines for side in sides(each))
        if first + second + total > 1 or (total and each[2] in colours):
            left.append(each)
    return lines, frozenset(left)


@lru_cache(maxsize=2**16)  # most states follow one state in many ways
def named(state: State) -> State:
    """The same state with points named by what they look like, so that most states that look alike become one."""
    lines, seen = state
    looks: dict[tuple[int, int], int] = {}
    ends = [((0 if kind else 1, a), (2 if kind != SUM else 1, b), kind) for kind, a, b in lines]
    for one, other, _ in ends:
        looks[one], looks[other] = one[0], other[0]
    corners = [[(kind, point) for kind, point in enumerate(each) if (kind, point) in looks] for each in seen]
    classes = 0
    while True:
        while True:
            around: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
            for one, other, kind in ends:
                around[one].append((kind, looks[other]))
                around[other].append((kind, looks[one]))
            for each in corners:
                met = tuple(looks[point] for point in each)
                for point in each:
                    around[point].append((3, *met))
            views = {point: (look, *sorted(around[point])) for point, look in looks.items()}
            places = {view: place for place, view in enumerate(sorted(set(views.values())))}
            looks = {point: places[view] for point, view in views.items()}
            if len(places) == classes:
                break
            classes = len(places)
        if classes == len(looks):
            break
        counts = defaultdict(list)
        for point, look in looks.items():
            counts[look].append(point)
        first = min(look for look, points in counts.items() if len(points) > 1)
        chosen = min(counts[first])
        looks = {point: 2 * look + (point != chosen) for point, look in looks.items()}
    found = frozenset((kind, looks[one], looks[other]) for one, other, kind in ends)
    return found, frozenset((looks[0, a], looks[1, b], looks[2, c]) for a, b, c in seen)


def following(state: State, words: int, affordable: float, price: float) -> Iterator[tuple[State, int, int]]:
    """States after the lines that a triangle lacks have come, with the triangles seen and what lines that left cost.

    What leaves before costs less than is ``affordable``, and ``price`` more for every triangle that could be seen.
    """
    lines, _ = state
    points: list[set[int]] = [set(), set(), set()]
    for kind, a, b in lines:
        points[0 if kind else 1].add(a)
        points[2 if kind != SUM else 1].add(b)
    fresh = 1 + max((point for some in points for point in some), default=0)
    # what goes may be a side that comes again, so that triangles are seen again
    goes = chain.from_iterable(combinations(lines, count) for count in range(len(lines) + 1))
    parts = sorted(((cost(gone), gone) for gone in goes), key=lambda part: part[0])
    known_after: dict[tuple[Line, ...], State] = {}
    for triangle in product(*(sorted(some | {fresh + kind}) for kind, some in enumerate(points))):
        wanted = sides(triangle)
        most = affordable + price * len(triangles(lines.union(wanted)))
        for paid, gone in parts:
            if paid >= most:
                break
            if gone not in known_after:
                known_after[gone] = without(state, gone, words)
            left, known = known_after[gone]
            lacks = [side for side in wanted if side not in left]
            # a sum that comes may take the place of a line after its triangles are seen
            more = any(side[0] == SUM for side in lacks)
            if not lacks or triangle in known or len(left) + len(lacks) > words + more:
                continue
            there = left.union(lacks)
            now = triangles(there)
            after, new = (there, known | now), len(now - known)
            if len(there) <= words:
                yield after, new, paid
            else:
                for last in there:
                    yield without(after, (last,), words), new, paid + cost((last,))


def sees_no_more(words: int, share: Fraction) -> tuple[bool, int]:
    """Whether no game sees more triangles than that share of the cost of the lines that came, and states looked at.

    A game that is in a state after no more gains than its lines cost may as well begin with these lines: only states
    with a gain over the lines that have left are followed.
    """
    worth, word = share.denominator, share.numerator  # of a triangle, and of what lines cost
    start: State = (frozenset(), frozenset())
    gains, queue, count = {start: 0}, [(0, 0, start)], 0
    while queue:
        below, _, state = heappop(queue)
        if gains[state] > -below:
            continue
        for after, new, paid in following(state, words, -below / word, worth / word):
            gain = worth * new - word * paid - below
            if gain > word * cost(after[0]):
                return False, len(gains)
            if gain <= 0:
                continue
            name = named(after)
            if gains.get(name, 0) < gain:
                gains[name], count = gain, count + 1
                heappush(queue, (-gain, count, name))
    return True, len(gains)


if __name__ == "__main__":
    asked = int(sys.argv[1])
    print(asked, PRODUCTS_FOR_A_WORD[asked], *sees_no_more(asked, PRODUCTS_FOR_A_WORD[asked]))
