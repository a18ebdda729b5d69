"""The referee: plays a schedule move by move and stops at the first illegal one.

>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.schedule import Move, Schedule
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> play = Schedule.of([Move(MoveKind.LOAD, 0), Move(MoveKind.COMPUTE, 2)])
>>> print(check(Game(graph=graph, red=3), play).complaint)
move 2 (compute sum): its parent b is not red
"""

from dataclasses import dataclass
from typing import assert_never

from attenio.names import checked_kind
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.quantities import show_words


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """The first illegal move, counted from 1; or, after the last one, what is missing."""

    step: int
    move: str
    reason: str

    def __str__(self) -> str:
        return f"move {self.step:,} ({self.move}): {self.reason}" if self.move else f"at the end: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a schedule did, up to the first illegal move if there is one."""

    complaint: Complaint | None
    loaded_words: int
    stored_words: int
    computations: int
    peak_red: int
    moves: int

    @property
    def legal(self) -> bool:
        """Whether every move was legal and every output ended in slow memory."""
        return self.complaint is None

    @property
    def cost_words(self) -> int:
        """Words moved in both directions."""
        return self.loaded_words + self.stored_words


class Board:
    """The pebbles during a game. ``play`` makes a move, or returns why it is illegal and leaves the board as it was.

    Loading what is red and storing what is blue are legal, and cost what they always cost.
    """

    def __init__(self, game: Game) -> None:
        graph = checked_kind(game, Game, "game", "a Game, such as Game(graph=fft(8), red=3)").graph
        self.game = game
        self.red = bytearray(len(graph))
        self.blue = bytearray(len(graph))
        # Accumulated since the value was last stored (the partial game's dark red).
        self.dirty = bytearray(len(graph))
        self.computed = bytearray(len(graph))
        self.red_words = self.peak_red = self.loaded_words = self.stored_words = self.computations = 0
        self._names, self._weights, self._parents = graph.names, graph.weights.tolist(), graph.parents
        for vertex in graph.inputs.tolist():
            self.blue[vertex] = self.computed[vertex] = 1
        self._is_output = bytearray(len(graph))
        for vertex in graph.outputs.tolist():
            self._is_output[vertex] = 1
        if game.variant is Variant.PARTIAL:
            self._marked: set[tuple[int, int]] = set()
            self._unmarked_in = [len(needs) for needs in graph.parents]
            # What no output depends on need not be computed, so nothing has to wait for it.
            useful = graph.useful.tolist()
            self._unmarked_out = [sum(useful[user] for user in users) for users in graph.children]
            self._useful = useful

    def play(self, move: Move) -> str | None:
        """Make the move; the reason if it is illegal."""
        if not 0 <= move.vertex < len(self._names):
            return f"the graph has no vertex {move.vertex}"
        match move.kind:
            case MoveKind.LOAD:
                return self._load(move.vertex)
            case MoveKind.STORE:
                return self._store(move.vertex)
            case MoveKind.COMPUTE:
                return self._compute(move.vertex, move.parent)
            case MoveKind.ACCUMULATE:
                return self._accumulate(move.vertex, move.parent)
            case MoveKind.DELETE:
                return self._delete(move.vertex)
            case _:
                assert_never(move.kind)

    def missing(self) -> str | None:
        """What the game still lacks to be won."""
        lacking = [v for v in self.game.graph.outputs.tolist() if not (self.blue[v] and self._finished(v))]
        if not lacking:
            return None
        named = self._names[lacking[0]]
        others = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
        return f"output {named}{others} not in slow memory"

    def _finished(self, vertex: int) -> bool:
        return self.game.variant is not Variant.PARTIAL or self._unmarked_in[vertex] == 0

    def _place(self, vertex: int, *, instead: int | None = None) -> str | None:
        freed = 0 if instead is None else self._weights[instead]
        words = self.red_words - freed + (0 if self.red[vertex] else self._weights[vertex])
        if words > self.game.red:
            return f"{show_words(words)} would be red; there are {self.game.red:,}"
        if instead is not None:
            self.red[instead] = 0
        self.red[vertex] = 1
        self.red_words = words
        self.peak_red = max(self.peak_red, words)
        return None

    def _load(self, vertex: int) -> str | None:
        if not self.blue[vertex]:
            return "it has no blue pebble"
        reason = self._place(vertex)
        if reason is None:
            self.loaded_words += self._weights[vertex]
        return reason

    def _store(self, vertex: int) -> str | None:
        if not self.red[vertex]:
            return "it has no red pebble"
        self.blue[vertex], self.dirty[vertex] = 1, 0
        self.stored_words += self._weights[vertex]
        return None

    def _compute(self, vertex: int, instead: int | None) -> str | None:
        game, needs = self.game, self._parents[vertex]
        if game.variant is Variant.PARTIAL:
            return "the partial game computes edge by edge; accumulate from one parent at a time"
        if not needs:
            return "it is an input; load it"
        if game.variant is Variant.ONE_SHOT and self.computed[vertex]:
            return "it was computed before, and this game computes every value once"
        for parent in needs:
            if not self.red[parent]:
                return f"its parent {self._names[parent]} is not red"
        if instead is not None:
            if not game.sliding:
                return "this game has no sliding; compute it in a place of its own"
            if instead not in needs:
                return "it can only take the place of one of its parents"
        reason = self._place(vertex, instead=instead)
        if reason is None:
            self.computed[vertex] = 1
            self.computations += 1
        return reason

    def _accumulate(self, vertex: int, parent: int | None) -> str | None:
        if self.game.variant is not Variant.PARTIAL:
            return f"the {self.game.variant.value} game computes a value from all its parents at once"
        if parent is None or parent not in self._parents[vertex]:
            return "it accumulates from one of its parents; name one"
        if (parent, vertex) in self._marked:
            return f"it has been accumulated from {self._names[parent]} before"
        if self._unmarked_in[parent]:
            return f"its parent {self._names[parent]} is not finished"
        if not self.red[parent]:
            return f"its parent {self._names[parent]} is not red"
        if not self.red[vertex]:
            if self._unmarked_in[vertex] < len(self._parents[vertex]):
                return "it has been begun and is not red; load it first"
            reason = self._place(vertex)
            if reason is not None:
                return reason
        self._marked.add((parent, vertex))
        self._unmarked_in[vertex] -= 1
        self._unmarked_out[parent] -= self._useful[vertex]
        self.blue[vertex], self.dirty[vertex] = 0, 1
        self.computations += 1
        return None

    def _delete(self, vertex: int) -> str | None:
        if not self.red[vertex]:
            return "it has no red pebble"
        if self.dirty[vertex]:
            if self._unmarked_out[vertex]:
                return "it is unsaved and still needed; store it first"
            if self._is_output[vertex]:
                return "it is an unsaved output; store it first"
        self.red[vertex] = self.dirty[vertex] = 0
        self.red_words -= self._weights[vertex]
        return None


def check(game: Game, schedule: Schedule) -> Verdict:
    """Play the schedule from the start; the verdict names the first illegal move, if any, and its reason."""
    checked_kind(game, Game, "game", "a Game, such as Game(graph=fft(8), red=4)")
    board = Board(game)
    complaint = None
    step = 0
    for step, move in enumerate(schedule, 1):
        reason = board.play(move)
        if reason is not None:
            complaint = Complaint(step=step, move=move.describe(game.graph), reason=reason)
            break
    else:
        lacking = board.missing()
        if lacking is not None:
            complaint = Complaint(step=step, move="", reason=lacking)
    return Verdict(
        complaint=complaint,
        loaded_words=board.loaded_words,
        stored_words=board.stored_words,
        computations=board.computations,
        peak_red=board.peak_red,
        moves=len(schedule),
    )
