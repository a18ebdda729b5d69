import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.elements import ElementType
from attenio.errors import InvalidInput, MemoryOverflow
from attenio.memory import EventKind, FastMemory, SlowArray, Trace

QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def slow(name, rows, columns):
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    return SlowArray.elements(name, values, ElementType.FP32)


def test_an_overflow_says_what_how_much_and_what_to_do():
    fast = FastMemory(65_536)
    with fast.buffer("Q", 60, 1024):
        message = "cannot hold 4,097 words of K: 61,440 of 65,536 in use; use a smaller tile"
        with pytest.raises(MemoryOverflow, match=message), fast.buffer("K", 4097, 1):
            pass
        with fast.buffer("K", 4096, 1):
            assert fast.in_use_words == 65_536
    assert (fast.in_use_words, fast.peak_words) == (0, 65_536)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=6), st.integers(1, 4))
def test_blocks_take_their_words_and_give_them_back(shapes, width):
    fast = FastMemory(10_000, intermediate_words=width)
    words = [rows * columns * (1 if elements else width) for rows, columns, elements in shapes]

    def descend(index):
        assert fast.in_use_words == sum(words[:index])
        if index < len(shapes):
            rows, columns, elements = shapes[index]
            with (fast.buffer if elements else fast.scratch)("X", rows, columns):
                descend(index + 1)

    descend(0)
    assert (fast.in_use_words, fast.peak_words) == (0, sum(words))


@QUICK
@given(st.integers(1, 8), st.integers(1, 5), st.data())
def test_what_is_held_is_what_was_loaded_and_every_word_is_counted(rows, columns, data):
    K, fast = slow("K", rows, columns), FastMemory(1000)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, rows - 1), min_size=1))), dtype=np.intp)
    first = data.draw(st.integers(0, columns - 1))
    with fast.buffer("K", rows, columns) as buffer, buffer.holding(K, chosen, slice(first, columns)) as held:
        assert (held.values == K.values[chosen, first:]).all()
        assert fast.trace.loads["K"] == len(chosen) * (columns - first)


def test_what_has_left_is_nan():
    K, fast = slow("K", 4, 2), FastMemory(100)
    with fast.buffer("K", 2, 2) as buffer:
        with buffer.holding(K, slice(0, 2)) as held:
            assert np.isfinite(held.values).all()
        assert np.isnan(held.values).all()
        whole = buffer.zeros(slice(0, 2), slice(0, 2))
    assert np.isnan(whole.values).all()


def test_a_buffer_holds_no_more_than_it_reserved():
    K, fast = slow("K", 4, 2), FastMemory(100)
    with (
        fast.buffer("K", 2, 2) as buffer,
        pytest.raises(MemoryOverflow, match="cannot hold 3 x 2 of K in a buffer of 2 x 2"),
        buffer.holding(K, slice(0, 3)),
    ):
        pass


def test_a_stream_counts_every_word_and_holds_one_piece():
    K, fast = slow("K", 5, 3), FastMemory(1, trace=Trace(record=True))
    with fast.buffer("K", 1, 1) as element:
        with element.streaming(K, slice(1, 5), slice(2, 3), along="rows") as column:
            assert column.values[:, 0].tolist() == [5, 8, 11, 14]
        assert np.isnan(column.values).all()
        with pytest.raises(MemoryOverflow), element.streaming(K, slice(1, 5), slice(0, 2), along="rows"):
            pass
    assert (fast.trace.loads["K"], fast.peak_words) == (4, 1)
    load = next(event for event in fast.trace.events if event.kind is EventKind.LOAD)
    assert (load.stream, load.along, load.rows.tolist()) == (1, "rows", [1, 2, 3, 4])


def test_values_pass_through_a_one_word_buffer_only_while_something_streams():
    K, fast = slow("K", 5, 1), FastMemory(3)
    with fast.buffer("K", 1, 1) as element, fast.scratch("S", 1, 1) as in_hand:
        with element.streaming(K, slice(0, 5), along="rows"):
            assert in_hand.passing(slice(0, 1), slice(0, 5)).values.shape == (1, 5)
        with pytest.raises(AssertionError, match="only while something streams"):
            in_hand.passing(slice(0, 1), slice(0, 5))


def test_storing_rounds_to_the_element_type_and_counts_its_words():
    fast = FastMemory(100, intermediate_words=2)
    output = SlowArray.unwritten("O", (2, 2), ElementType.FP16)
    state = SlowArray.intermediate("partial O", (2, 2), 2)
    with fast.scratch("O", 2, 2) as buffer:
        tile = buffer.filled(slice(0, 2), slice(0, 2), 1.0001)
        fast.store(tile, output)
        fast.store(tile, state)
        assert (output.values == 1.0).all()
        assert (state.values == np.float32(1.0001)).all()
        assert (fast.trace.stores["O"], fast.trace.stores["partial O"]) == (4, 8)
        fast.store(tile, state, element=ElementType.FP16)
        assert (state.values == 1.0).all()
        assert fast.trace.stores["partial O"] == 8 + 4


def test_only_marked_cells_move_and_the_others_load_as_minus_infinity():
    fast, cells = FastMemory(100, intermediate_words=2), np.array([[True, False], [False, True]])
    S = SlowArray.intermediate("S", (2, 2), 2)
    with fast.scratch("S", 2, 2) as buffer:
        fast.store(buffer.filled(slice(0, 2), slice(0, 2), 7.0), S, cells=cells)
        assert (np.isnan(S.values) == ~cells).all()
        tile = buffer.over(slice(0, 2), slice(0, 2))
        fast.load(S, tile, cells=cells)
        assert tile.values.tolist() == [[7.0, -np.inf], [-np.inf, 7.0]]
    assert (fast.trace.loads["S"], fast.trace.stores["S"]) == (4, 4)


def test_part_of_a_tile_can_be_loaded_and_stored():
    fast, at = FastMemory(100), np.array([0, 2])
    state = SlowArray.intermediate("partial O", (9, 1), 1)
    with fast.scratch("O", 3, 1) as buffer:
        tile = buffer.zeros(slice(4, 7), slice(0, 1))
        tile.values[:, 0] = [1, 2, 3]
        fast.store(tile, state, np.array([4, 6]), at=at)
        assert np.flatnonzero(np.isfinite(state.values[:, 0])).tolist() == [4, 6]
        tile.values.fill(0)
        fast.load(state, tile, np.array([4, 6]), at=at)
        assert tile.values[:, 0].tolist() == [1, 0, 3]
    assert fast.trace.moved_words == 4


def test_a_tile_of_one_level_is_the_slow_side_of_the_next():
    K = slow("K", 10, 2)
    outer, inner = FastMemory(100, trace=Trace(level=2)), FastMemory(10, trace=Trace(record=True))
    with (
        outer.buffer("K", 4, 2) as big,
        inner.buffer("K", 2, 2) as small,
        big.holding(K, slice(5, 9)) as held,
        small.holding(held, slice(1, 3)) as tile,
    ):
        assert (tile.values == K.values[6:8]).all()
        assert tile.rows == slice(6, 8)
    assert (outer.trace.loads["K"], inner.trace.loads["K"]) == (8, 4)
    load = next(event for event in inner.trace.events if event.kind is EventKind.LOAD)
    assert load.rows.tolist() == [6, 7]


@pytest.mark.parametrize("words", [0, -1, 1.5])
def test_a_memory_has_at_least_one_word(words):
    with pytest.raises(InvalidInput, match="fast memory"):
        FastMemory(words)
