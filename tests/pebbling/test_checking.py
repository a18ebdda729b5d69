"""The referee: accepts what the rules allow, and rejects every kind of illegal move for its own reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.pebbling.checking import Board, check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind, Schedule

from .strategies import QUICK, games, spilling_schedule

STANDARD, ONE_SHOT, PARTIAL = Variant.STANDARD, Variant.ONE_SHOT, Variant.PARTIAL
WHOLE = (STANDARD, ONE_SHOT)

# x = f(a, b), y = g(x, c): two levels, one output.
LADDER = ComputationGraph.from_parents({"a": (), "b": (), "c": (), "x": ("a", "b"), "y": ("x", "c")}, name="ladder")
HEAVY = ComputationGraph.from_parents(
    {"a": (), "b": (), "x": ("a", "b")}, name="heavy", weights={"a": 4, "b": 3, "x": 2}
)


def moves(graph: ComputationGraph, text: str) -> Schedule:
    """Moves: ``+a`` load, ``!a`` store, ``-a`` delete, ``x`` compute (``x/a`` in place of a), ``x<a`` accumulate."""
    listed = []
    for word in text.split():
        sign, rest = (word[0], word[1:]) if word[0] in "+!-" else ("", word)
        if "/" in rest or "<" in rest:
            name, parent = rest.replace("/", "<").split("<")
            kind = MoveKind.COMPUTE if "/" in rest else MoveKind.ACCUMULATE
            listed.append(Move(kind, graph.number(name), graph.number(parent)))
            continue
        kind = {"+": MoveKind.LOAD, "!": MoveKind.STORE, "-": MoveKind.DELETE, "": MoveKind.COMPUTE}[sign]
        listed.append(Move(kind, graph.number(rest)))
    return Schedule.of(listed)


def game(variant: Variant, *, red: int = 5, sliding: bool = False, graph: ComputationGraph = LADDER) -> Game:
    return Game(graph=graph, red=red, variant=variant, sliding=sliding)


@pytest.mark.parametrize(
    ("variant", "sliding", "red", "play", "cost"),
    [
        (STANDARD, False, 3, "+a +b x -a -b +c y !y", 4),
        (ONE_SHOT, False, 3, "+a +b x -a -b +c y !y", 4),
        (STANDARD, True, 2, "+a +b x/a -b +c y/c !y", 4),
        (ONE_SHOT, True, 2, "+a +b x/b -a +c y/x !y", 4),
        (STANDARD, False, 3, "+a +b x -x x -a -b +c y -y y !y", 4),  # computed again, which costs nothing
        (PARTIAL, False, 2, "+a x<a -a +b x<b -b y<x -x +c y<c !y", 4),
        (PARTIAL, False, 2, "+a x<a !x -x -a +b +x x<b -b y<x -x !y -y +c +y y<c !y", 8),  # sums spilled half-way
        (PARTIAL, False, 3, "+c y<c -c +a x<a -a +b x<b -b y<x !y", 4),  # the second parent first
    ],
)
def test_legal_schedules_are_accepted_and_counted(
    variant: Variant, sliding: bool, red: int, play: str, cost: int
) -> None:
    verdict = check(game(variant, red=red, sliding=sliding), moves(LADDER, play))
    assert verdict.complaint is None
    assert verdict.legal
    assert verdict.cost_words == cost == verdict.loaded_words + verdict.stored_words
    assert verdict.peak_red <= red
    assert verdict.moves == len(play.split())


@pytest.mark.parametrize("variant", Variant)
def test_loading_what_is_red_and_storing_what_is_blue_are_legal_and_cost(variant: Variant) -> None:
    half = "x<a x<b" if variant is PARTIAL else "x"
    rest = "y<x y<c" if variant is PARTIAL else "y"
    verdict = check(game(variant), moves(LADDER, f"+a +a !a +b {half} +c {rest} !y !y"))
    assert verdict.legal
    assert (verdict.loaded_words, verdict.stored_words) == (4, 3)


ILLEGAL = [
    # load
    *((variant, "+x", "move 1 (load x): it has no blue pebble") for variant in Variant),
    (STANDARD, "+a +b x -x +x", "move 5 (load x): it has no blue pebble"),
    # a stored sum that is accumulated again is no longer what slow memory holds
    (PARTIAL, "+a +b x<a !x x<b -a -b +x", "move 8 (load x): it has no blue pebble"),
    # store and delete
    *((variant, "!a", "move 1 (store a): it has no red pebble") for variant in Variant),
    *((variant, "+a -a -a", "move 3 (delete a): it has no red pebble") for variant in Variant),
    # compute
    *((variant, "+a x", "move 2 (compute x): its parent b is not red") for variant in WHOLE),
    *((variant, "+a a", "move 2 (compute a): it is an input; load it") for variant in WHOLE),
    *(
        (
            variant,
            "+a +b x/a",
            "move 3 (compute x in place of a): this game has no sliding; compute it in a place of its own",
        )
        for variant in WHOLE
    ),
    (ONE_SHOT, "+a +b x -x x", "move 5 (compute x): it was computed before, and this game computes every value once"),
    (
        PARTIAL,
        "+a +b x",
        "move 3 (compute x): the partial game computes edge by edge; accumulate from one parent at a time",
    ),
    # accumulate
    (
        STANDARD,
        "+a x<a",
        "move 2 (accumulate x from a): the standard game computes a value from all its parents at once",
    ),
    (
        ONE_SHOT,
        "+a x<a",
        "move 2 (accumulate x from a): the one-shot game computes a value from all its parents at once",
    ),
    (PARTIAL, "+c x<c", "move 2 (accumulate x from c): it accumulates from one of its parents; name one"),
    (PARTIAL, "+a x<a x<a", "move 3 (accumulate x from a): it has been accumulated from a before"),
    (PARTIAL, "+a x<a y<x", "move 3 (accumulate y from x): its parent x is not finished"),
    (PARTIAL, "x<a", "move 1 (accumulate x from a): its parent a is not red"),
    (PARTIAL, "+a x<a !x -x +b x<b", "move 6 (accumulate x from b): it has been begun and is not red; load it first"),
    # delete what is unsaved
    (PARTIAL, "+a x<a -x", "move 3 (delete x): it is unsaved and still needed; store it first"),
    (PARTIAL, "+a x<a +b x<b +c y<x y<c -y", "move 8 (delete y): it is an unsaved output; store it first"),
    # the end
    *((variant, "+a", "at the end: output y not in slow memory") for variant in Variant),
    (STANDARD, "+a +b x +c y", "at the end: output y not in slow memory"),
    (PARTIAL, "+c y<c !y", "at the end: output y not in slow memory"),
]


@pytest.mark.parametrize(("variant", "play", "complaint"), ILLEGAL)
def test_an_illegal_move_is_named_with_its_reason(variant: Variant, play: str, complaint: str) -> None:
    verdict = check(game(variant), moves(LADDER, play))
    assert not verdict.legal
    assert str(verdict.complaint) == complaint


@pytest.mark.parametrize("variant", WHOLE)
def test_a_value_slides_only_onto_its_own_parent(variant: Variant) -> None:
    verdict = check(game(variant, sliding=True), moves(LADDER, "+a +b +c x/c"))
    assert (
        str(verdict.complaint) == "move 4 (compute x in place of c): it can only take the place of one of its parents"
    )


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("vertex", [-1, 5])
@pytest.mark.parametrize("kind", MoveKind)
def test_a_vertex_that_the_graph_does_not_have_is_refused(variant: Variant, vertex: int, kind: MoveKind) -> None:
    verdict = check(game(variant), Schedule.of([Move(kind, vertex)]))
    assert str(verdict.complaint) == f"move 1 ({kind.value} vertex {vertex}): the graph has no vertex {vertex}"


def test_accumulating_needs_a_parent() -> None:
    verdict = check(game(PARTIAL), Schedule.of([Move(MoveKind.ACCUMULATE, 3)]))
    assert verdict.complaint is not None
    assert verdict.complaint.reason == "it accumulates from one of its parents; name one"


@pytest.mark.parametrize(
    ("variant", "sliding", "red", "play", "words"),
    [
        (STANDARD, False, 3, "+a +b +c x", 4),
        (ONE_SHOT, False, 3, "+a +b +c x", 4),
        (STANDARD, True, 2, "+a +b x", 3),
        (PARTIAL, False, 2, "+a +b x<a", 3),
        (STANDARD, False, 3, "+a +b x +c", 4),
    ],
)
def test_more_words_than_there_are_pebbles_are_refused(
    variant: Variant, sliding: bool, red: int, play: str, words: int
) -> None:
    verdict = check(game(variant, red=red, sliding=sliding), moves(LADDER, play))
    assert verdict.complaint is not None
    assert verdict.complaint.reason == f"{words} words would be red; there are {red}"
    assert verdict.peak_red == red


def test_words_are_counted_by_weight() -> None:
    verdict = check(game(STANDARD, red=9, graph=HEAVY), moves(HEAVY, "+a +b x !x"))
    assert verdict.legal
    assert (verdict.loaded_words, verdict.stored_words, verdict.peak_red) == (7, 2, 9)
    slid = check(game(STANDARD, red=7, sliding=True, graph=HEAVY), moves(HEAVY, "+a +b x/b !x"))
    assert slid.legal
    assert slid.peak_red == 7
    partial = check(game(PARTIAL, red=6, graph=HEAVY), moves(HEAVY, "+a x<a -a +b x<b !x"))
    assert partial.legal
    assert partial.peak_red == 6


def test_sliding_frees_the_words_of_the_parent() -> None:
    board = Board(game(STANDARD, red=7, sliding=True, graph=HEAVY))
    for move in moves(HEAVY, "+a +b x/a"):
        assert board.play(move) is None
    assert board.red_words == 3 + 2
    assert not board.red[HEAVY.number("a")]


def test_several_missing_outputs_are_counted() -> None:
    graph = ComputationGraph.from_edges([("a", "x"), ("a", "y"), ("a", "z")])
    verdict = check(game(STANDARD, graph=graph), moves(graph, "+a x !x"))
    assert str(verdict.complaint) == "at the end: output y and 1 more not in slow memory"


def test_an_input_that_is_an_output_is_in_slow_memory_already() -> None:
    graph = ComputationGraph.from_parents({"a": ()})
    for variant in Variant:
        assert check(game(variant, graph=graph), Schedule.of([])).legal


ANY_MOVES = st.lists(
    st.tuples(st.sampled_from(MoveKind), st.integers(-1, 8), st.none() | st.integers(-1, 8)), max_size=30
)


@QUICK
@given(games(weighted=True), ANY_MOVES)
def test_an_illegal_move_leaves_the_board_as_it_was_and_pebbles_never_exceed_what_there_is(game, tried) -> None:
    board = Board(game)

    def state() -> tuple[object, ...]:
        pebbles = (bytes(board.red), bytes(board.blue), bytes(board.dirty), bytes(board.computed))
        return (*pebbles, board.red_words, board.loaded_words, board.stored_words, board.computations)

    for kind, vertex, parent in tried:
        before = state()
        if board.play(Move(kind, vertex, parent)) is not None:
            assert state() == before
        red = sum(int(words) for words, is_red in zip(game.graph.weights, board.red, strict=True) if is_red)
        assert board.red_words == red <= game.red


@QUICK
@given(games(weighted=True), st.data())
def test_leaving_out_a_computation_is_noticed(game: Game, data: st.DataObject) -> None:
    schedule = list(spilling_schedule(game))
    computing = [i for i, move in enumerate(schedule) if move.kind in (MoveKind.COMPUTE, MoveKind.ACCUMULATE)]
    if not computing:
        return
    skipped = data.draw(st.sampled_from(computing))
    assert not check(game, Schedule.of(schedule[:skipped] + schedule[skipped + 1 :])).legal


@QUICK
@given(games(weighted=True, variants=WHOLE))
def test_what_one_shot_allows_the_standard_game_allows(game: Game) -> None:
    schedule = spilling_schedule(game)
    for variant in WHOLE:
        assert check(Game(graph=game.graph, red=game.red, variant=variant, sliding=game.sliding), schedule).legal


def test_a_value_that_no_output_depends_on_keeps_nothing_from_being_deleted():
    parents = {"b": ["a"], "c": ["b"], "e": ["c"], "u": ["b"]}
    graph = ComputationGraph.from_parents(parents, outputs=["e"], weights={"u": 3})
    moves = [("load", "a"), ("accumulate", "b", "a"), ("delete", "a"), ("accumulate", "c", "b"), ("delete", "b")]
    moves += [("accumulate", "e", "c"), ("store", "e")]
    number = graph.number
    played = [Move(MoveKind(kind), number(v), *(number(u) for u in parent)) for kind, v, *parent in moves]
    assert check(Game(graph=graph, red=2, variant=Variant.PARTIAL), Schedule.of(played)).legal
