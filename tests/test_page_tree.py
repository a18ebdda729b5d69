"""The tree of page tables: what it reads, and that it never moves more than requests apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio import page_tree as module
from attenio.page_tree import PageWords, misplaced_page, page_tree


@st.composite
def tables(draw):
    """Page tables that fork at random from one another, and the pages of each request that are whole and begun."""
    rows, fresh = [[]], iter(range(10**6))
    for _ in range(draw(st.integers(1, 8))):
        parent = draw(st.sampled_from(rows))
        rows.append(parent[: draw(st.integers(0, len(parent)))] + [next(fresh) for _ in range(draw(st.integers(0, 5)))])
    rows = rows[1:]
    table = np.full((len(rows), max(1, *map(len, rows))), -1)
    for into, row in zip(table, rows, strict=True):
        into[: len(row)] = row
    stop = np.array([len(row) for row in rows])
    return table, np.maximum(0, stop - draw(st.integers(0, 1))), stop


def words(count, page=10, partial=4):
    return PageWords(page=page, partial=(partial,) * count)


@given(tables(), st.integers(1, 40))
def test_every_request_reads_each_of_its_pages_exactly_once(given_tables, partial):
    table, whole, stop = given_tables
    tree = page_tree(table, whole, stop, words(len(stop), partial=partial))
    for request, row in enumerate(table):
        read = [(run.first, run.stop) for run in tree.runs if request in run.requests]
        read.append((tree.own[request], stop[request]))
        assert [place for first, last in read for place in range(first, last)] == list(range(stop[request]))
        for run in tree.runs:
            if request in run.requests:
                assert run.stop <= whole[request]
                assert (row[run.first : run.stop] == table[run.requests[0], run.first : run.stop]).all()


@given(tables(), st.integers(1, 40))
def test_a_tree_never_moves_more_than_requests_apart(given_tables, partial):
    table, whole, stop = given_tables
    tree = page_tree(table, whole, stop, words(len(stop), partial=partial))
    assert tree.moved_words <= tree.apart_words
    assert tree.is_flat == (tree.moved_words == tree.apart_words)


@given(tables())
def test_where_partial_results_are_free_every_distinct_page_is_read_once(given_tables):
    table, whole, stop = given_tables
    tree = page_tree(table, whole, stop, words(len(stop), page=1, partial=0))
    shared = {page for row, most in zip(table, whole, strict=True) for page in row[:most]}
    last = sum(int(s - w) for s, w in zip(stop, whole, strict=True))
    assert tree.moved_words == len(shared) + last


@given(tables(), st.sampled_from([1, 3, 2**18]))
def test_a_tree_is_the_same_whether_groups_are_compared_one_by_one_or_together(given_tables, at_once):
    table, whole, stop = given_tables
    given_words = words(len(stop), page=100)
    alone = page_tree(table, whole, stop, given_words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_GROUPS", 0)
        patch.setattr(module, "_AT_ONCE", at_once)
        together = page_tree(table, whole, stop, given_words)
    assert (together.runs, together.own) == (alone.runs, alone.own)


@given(tables())
def test_a_run_stands_before_those_below_it_and_these_before_the_next(given_tables):
    table, whole, stop = given_tables
    path = []
    for run in page_tree(table, whole, stop, words(len(stop), page=100)).runs:
        assert list(run.requests) == sorted(run.requests)
        assert run.depth <= len(path)
        del path[run.depth :]
        assert run.first == (path[-1].stop if path else 0)
        assert not path or set(run.requests) <= set(path[-1].requests)
        path.append(run)


def test_pairs_among_many_requests_are_found_together():
    pairs = np.arange(20_000) // 2
    table = np.stack([0 * pairs, pairs + 1, np.arange(20_000) + 20_001], axis=1)
    tree = page_tree(table, np.full(20_000, 2), np.full(20_000, 3), words(20_000, page=100))
    assert [run.requests for run in tree.runs[:3]] == [tuple(range(20_000)), (0, 1), (2, 3)]
    assert len(tree.runs) == 10_001 and set(tree.own) == {2}


def test_a_tree_of_three_requests_by_hand():
    table = np.array([[5, 6, 7, 1], [5, 6, 7, 2], [5, 6, 3, -1]])
    stop = np.array([4, 4, 3])
    tree = page_tree(table, stop - 1, stop, words(3))
    assert [(run.requests, run.first, run.stop, run.depth) for run in tree.runs] == [((0, 1, 2), 0, 2, 0)]
    assert (tree.apart_words, tree.key_words, tree.partial_words) == (110, 70, 24)
    deeper = page_tree(table, stop - 1, stop, words(3, page=100))
    assert [run.requests for run in deeper.runs] == [(0, 1, 2), (0, 1)]
    assert str(deeper).splitlines()[1] == "  pages 2..2 once for requests 0, 1"


def test_a_page_at_two_places_is_found_and_pages_at_one_place_are_not():
    table = np.array([[4, 9, 1], [4, 2, 9]])
    assert misplaced_page(table, np.array([3, 2])) is None
    assert misplaced_page(table, np.array([3, 3])) == (9, (0, 1), (1, 2))
    assert misplaced_page(np.array([[3, 3]]), np.array([2])) == (3, (0, 0), (0, 1))
