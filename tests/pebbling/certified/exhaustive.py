"""The optimum of a tiny game by Dijkstra's algorithm over all states: every rule spelled out, nothing pruned."""

import heapq
from collections.abc import Iterable, Iterator

from attenio.pebbling import Game, Variant

# red, blue, unsaved, computed vertices or marked edges: sets as bit masks
State = tuple[int, int, int, int]


def optimum(game: Game) -> int:
    """The least words of any play."""
    rules = _Partial(game) if game.variant is Variant.PARTIAL else _Whole(game)
    start: State = (0, _mask(game.graph.inputs.tolist()), 0, 0)
    wanted = _mask(game.graph.outputs.tolist())
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, state = heapq.heappop(queue)
        if cost > best[state]:
            continue
        if state[1] & wanted == wanted and state[3] & rules.finished == rules.finished:
            return cost
        for words, after in rules.moves(state):
            if cost + words < best.get(after, cost + words + 1):
                best[after] = cost + words
                heapq.heappush(queue, (cost + words, after))
    raise AssertionError("the game cannot be won")


def _mask(members: Iterable[int]) -> int:
    return sum(1 << each for each in members)


class _Rules:
    finished = 0

    def __init__(self, game: Game) -> None:
        self.game = game
        self.weights = game.graph.weights.tolist()
        # words of every set of vertices
        self.words = [0]
        for weight in self.weights:
            self.words += [words + weight for words in self.words]

    def traffic(self, state: State) -> Iterator[tuple[int, State]]:
        red, blue, unsaved, made = state
        for v, weight in enumerate(self.weights):
            bit = 1 << v
            if blue & bit and self.words[red | bit] <= self.game.red:
                yield weight, (red | bit, blue, unsaved, made)
            if red & bit:
                yield weight, (red, blue | bit, unsaved & ~bit, made)


class _Whole(_Rules):
    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self.needs = [_mask(needs) for needs in game.graph.parents]
        self.once = game.variant is Variant.ONE_SHOT

    def moves(self, state: State) -> Iterator[tuple[int, State]]:
        yield from self.traffic(state)
        red, blue, _, made = state
        for v, needs in enumerate(self.needs):
            bit = 1 << v
            if red & bit:
                yield 0, (red & ~bit, blue, 0, made)
            if not needs or needs & ~red or (self.once and made & bit):
                continue
            instead = [0, *(1 << u for u in self.game.graph.parents[v])] if self.game.sliding else [0]
            for freed in instead:
                placed = red & ~freed | bit
                if self.words[placed] <= self.game.red:
                    yield 0, (placed, blue, 0, made | bit if self.once else 0)


class _Partial(_Rules):
    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self.edges = [(u, v) for v, needs in enumerate(game.graph.parents) for u in needs]
        size = len(game.graph)
        self.into = [_mask(n for n, (_, v) in enumerate(self.edges) if v == w) for w in range(size)]
        self.out = [_mask(n for n, (u, _) in enumerate(self.edges) if u == w) for w in range(size)]
        self.outputs = _mask(game.graph.outputs.tolist())
        self.finished = sum(self.into[v] for v in game.graph.outputs.tolist())

    def moves(self, state: State) -> Iterator[tuple[int, State]]:
        yield from self.traffic(state)
        red, blue, unsaved, marked = state
        for v in range(len(self.into)):
            bit = 1 << v
            if red & bit and not (unsaved & bit and (self.out[v] & ~marked or self.outputs & bit)):
                yield 0, (red & ~bit, blue, unsaved & ~bit, marked)
        for number, (u, v) in enumerate(self.edges):
            bit = 1 << v
            if marked >> number & 1 or self.into[u] & ~marked or not red >> u & 1:
                continue
            begun = self.into[v] & marked
            if (not begun or red & bit) and self.words[red | bit] <= self.game.red:
                yield 0, (red | bit, blue & ~bit, unsaved | bit, marked | 1 << number)
