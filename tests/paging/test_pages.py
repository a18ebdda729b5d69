"""Plans on pages: what a run counts is what the closed form says, no run goes below the bound, sharing never loses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import DoesNotFit, InvalidInput, MemoryOverflow
from attenio.memory import FastMemory, SlowArray
from attenio.paging import PagedTiles, PagedWorkload, bounds_for_pages, execute_pages, plan_pages
from attenio.paging.words import kinds_of, moved_words, peak_words


@st.composite
def tables(draw, page_size):
    """Lengths, new tokens and tables of a random tree: each request follows another's pages for a while."""
    lengths, rows, used = [], [], 0
    for _ in range(draw(st.integers(1, 6))):
        like = draw(st.sampled_from(rows)) if rows else ()
        row = like[: draw(st.integers(len(like) // 2, len(like)))]  # most of it, so that sharing it pays
        length = draw(st.integers(max(1, len(row) * page_size), (len(row) + 6) * page_size))
        fresh = tuple(range(used, used + -(-length // page_size) - len(row)))
        used += len(fresh)
        lengths.append(length)
        rows.append((*row, *fresh))
    new = [draw(st.integers(1, min(2, length))) for length in lengths]
    return {"lengths": tuple(lengths), "table": tuple(rows), "new": tuple(new)}


@st.composite
def trees(draw, page_size):
    """Lengths, new tokens and tables of a tree whose runs are long enough to be worth sharing."""
    inner, outer = draw(st.sampled_from([(1, 2), (2, 2), (3, 2), (1, 5)]))
    pages = draw(st.integers(-(-12 // page_size), -(-20 // page_size)))
    levels = ((pages * page_size, inner * outer), (pages * page_size, inner))[: 2 if inner > 1 else 1]
    own = draw(st.integers(1, 2 * page_size))
    made = PagedWorkload.of_levels(levels, own=own, page_size=page_size, d=1)
    return {"lengths": made.lengths, "table": made.table, "new": made.new}


@st.composite
def workloads(draw):
    page_size, kv_heads, group = draw(st.integers(1, 6)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    in_keys, bits = draw(st.booleans()), draw(st.sampled_from([None, 8, 4]))
    d, value_dim = (4 * draw(st.integers(1, 3)) for _ in range(2))
    return PagedWorkload(
        **draw(st.one_of(trees(page_size), tables(page_size))), page_size=page_size, d=d,
        value_dim=min(d, value_dim) if in_keys else value_dim,
        heads=kv_heads * group, kv_heads=kv_heads, kv_bits=bits, values_in_keys=in_keys, sinks=draw(st.booleans()),
        accumulator=draw(st.sampled_from([None, "fp32"])), softcap=draw(st.sampled_from([None, 1.5])),
    )  # fmt: skip


@settings(deadline=None, max_examples=20)
@given(workload=workloads(), shares=st.sampled_from([None, True, False]), spare=st.integers(0, 300))
def test_a_run_moves_and_holds_what_the_closed_form_says_and_gives_what_the_definition_gives(workload, shares, spare):
    enough = plan_pages(workload, 2**30, shares=shares)
    least = peak_words(workload, kinds_of(workload, enough.tree), PagedTiles(1, 1))
    plan = plan_pages(workload, least + spare, shares=shares)
    run = execute_pages(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert plan.peak_words <= plan.fast_words
    assert run.max_abs_error <= 5e-3  # outputs are rounded to 11 bits
    assert plan.moved_words >= max(bound.words for bound in bounds_for_pages(workload, plan.fast_words))
    assert bounds_for_pages(workload, plan.fast_words)[0].words == workload.compulsory_words


@settings(deadline=None, max_examples=20)
@given(workload=workloads(), fast=st.integers(200, 4000))
def test_the_plan_moves_no_more_than_requests_that_read_their_own_pages_and_no_more_with_more_room(workload, fast):
    best, apart = plan_pages(workload, fast), plan_pages(workload, fast, shares=False)
    assert best.moved_words <= apart.moved_words == best.apart_words == apart.apart_words
    assert plan_pages(workload, fast + 100).moved_words <= best.moved_words


@settings(deadline=None, max_examples=14)
@given(workload=workloads())
def test_every_request_meets_each_of_its_keys_in_one_part(workload):
    for plan in (plan_pages(workload, 2**20), plan_pages(workload, 2**20, shares=True)):
        for request, length in enumerate(workload.lengths):
            mine = sorted((part.first, part.stop) for part in plan.parts if request in part.requests)
            assert [first for first, _ in mine] == [0, *(stop for _, stop in mine[:-1])]
            assert mine[-1][1] == length
        for part in plan.parts:
            pages = slice(part.first // workload.page_size, -(-part.stop // workload.page_size))
            assert len({workload.table[request][pages] for request in part.requests}) == 1


def test_one_word_too_little_overflows():
    workload = PagedWorkload.of_levels(((16, 4),), own=5, page_size=4, d=4, heads=2, kv_heads=1, sinks=True, kv_bits=8)
    plan = plan_pages(workload, 200)
    assert execute_pages(replace(plan, fast_words=plan.peak_words)).moved_words == plan.moved_words
    with pytest.raises(MemoryOverflow):
        execute_pages(replace(plan, fast_words=plan.peak_words - 1))
    with pytest.raises(DoesNotFit, match="one row and one key on pages need"):
        plan_pages(workload, 10)


def test_a_shared_prompt_is_read_once_and_a_tree_s_inner_runs_too():
    tree = {"levels": ((4096, 64), (1024, 8)), "own": 64, "page_size": 64, "d": 64, "heads": 8, "kv_heads": 2}
    workload = PagedWorkload.of_levels(**tree)
    plan = plan_pages(workload, 2**17)
    assert [(len(run.requests), run.pages, run.depth) for run in plan.tree.runs] == [(64, 64, 0)] + [(8, 16, 1)] * 8
    keys = 4096 + 8 * 1024 + 64 * 64
    assert workload.distinct == (keys // 64, keys)
    assert workload.compulsory_words == 2 * keys * 128 + 64 * 8 * 128
    rows, partial = 64 * 8, 2 * 66 + 64  # two more parts of every row: a query, and a result out and in again
    assert plan.moved_words == workload.compulsory_words + rows * 2 * partial
    assert plan.apart_words == 2 * 64 * (4096 + 1024 + 64) * 128 + rows * 128
    few = PagedWorkload.of_levels(((64, 2),), own=64, page_size=64, d=64, heads=64, kv_heads=1)
    assert not plan_pages(few, 2**17).shares  # a page is less than what 128 rows would write and read


def test_keys_of_fewer_bits_take_fractions_of_a_word_and_scales_of_pages():
    whole = PagedWorkload(lengths=(1000, 300), page_size=64, d=64, heads=8, kv_heads=2)
    half, quarter = (replace(whole, kv_bits=bits) for bits in (8, 4))
    pages, keys = 16 + 5, 1300
    rows = 2 * 8 * 128
    assert whole.compulsory_words == 2 * keys * 128 + rows
    assert half.compulsory_words == 2 * (keys * 64 + pages * 4) + rows
    assert quarter.compulsory_words == 2 * (keys * 32 + pages * 4) + rows
    single = PagedWorkload(lengths=(1000, 300), page_size=64, d=64, heads=8, kv_heads=2, kv_bits=8, dtype="fp32")
    assert single.compulsory_words == 2 * (keys * 32 + pages * 2) + rows
    assert plan_pages(half, 2**16).moved_words == half.compulsory_words


def test_sinks_take_a_word_a_head_and_caps_none():
    plain = PagedWorkload(lengths=(70, 30), page_size=16, d=8, heads=6, kv_heads=2)
    sinks, capped = (replace(plain, **more) for more in ({"sinks": True}, {"softcap": 2.0}))
    tiles, kinds = PagedTiles(4, 8), kinds_of(plain, plan_pages(plain, 2**16).tree)
    assert moved_words(sinks, kinds, tiles) == moved_words(plain, kinds, tiles) + 6
    assert peak_words(sinks, kinds, tiles) == peak_words(plain, kinds, tiles) + 3
    assert moved_words(capped, kinds, tiles) == moved_words(plain, kinds, tiles)
    outputs = [execute_pages(plan_pages(each, 4096)).output for each in (plain, sinks, capped)]
    assert np.abs(outputs[1] - outputs[0]).max() > 0.01 < np.abs(outputs[2] - outputs[0]).max()


def test_the_counted_memory_counts_values_that_share_a_word():
    K = SlowArray.packed("K", np.ones((8, 3), dtype=np.float32), 2)
    fast = FastMemory(6)
    with fast.packed("K", 3, 3, 2) as buffer, buffer.holding(K, slice(0, 3)):
        assert fast.in_use_words == 5 and fast.trace.loads["K"] == 5  # nine values, the last word half empty


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lengths": ()}, "lengths is empty"),
        ({"lengths": (0,)}, "lengths"),
        ({"new": (9, 1)}, "new is .9, 1. for lengths .8, 3.; give as many, none above its length"),
        ({"new": (1, 1, 1)}, "give as many"),
        ({"lengths": (4,), "new": 5}, "new is 5 for lengths 4; give as many"),
        ({"lengths": (8,) * 900, "new": 9}, r"new is tuple [(]9, 9, .{9,60} for lengths tuple [(]8, 8"),
        ({"lengths": (2**30,), "page_size": 1}, "requests have 1,073,741,824 pages of 1 key together, and"),
        ({"heads": 3, "kv_heads": 2}, "3 query heads cannot share 2 KV heads evenly"),
        ({"kv_bits": 5}, "kv_bits is 5; give a divisor of 16"),
        ({"kv_bits": 32}, "kv_bits is 32; give a divisor of 16"),
        ({"d": 3, "kv_bits": 8}, "d is 3, and 2 entries of 8 bits share a word; give a multiple of 2"),
        ({"softcap": -1.0}, "softcap is -1.0"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"sinks": "yes"}, "sinks is 'yes'; give True or False"),
        ({"table": 7}, "table is 7; give the pages of each request"),
        ({"new": 1.5}, "new is 1.5; give whole numbers"),
        ({"values_in_keys": True, "value_dim": 6}, "values in keys are 6 wide and keys 4"),
        ({"table": ((0, 1),)}, "the table has 1 rows for 2 requests"),
        ({"table": ((0,), (1,))}, "request 0 has 1 pages for 8 keys; give it 2 of 4"),
        ({"table": ((0, 1), (1,))}, "page 1 is at place 0 of request 1 and at place 1 of request 0"),
        ({"table": ((0, -1), (2,))}, "request 0 has page -1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(asked, message):
    with pytest.raises(InvalidInput, match=message) as raised:
        PagedWorkload(**{"lengths": (8, 3), "page_size": 4, "d": 4, **asked})
    assert "\n" not in str(raised.value)


def test_trees_of_more_pages_than_tables_list_are_refused():
    for make in (
        lambda: PagedWorkload.of_levels(((2**30, 2**20),), own=1, page_size=16, d=4),
        lambda: PagedWorkload.of_prefix(16, lengths=(2**20,) * 2**10, page_size=16, d=4),
    ):
        with pytest.raises(InvalidInput, match="tables list up to 16,777,216; use larger pages, or fewer or shorter"):
            make()
    with pytest.raises(InvalidInput, match="page_size is 0; it must be at least 1"):
        PagedWorkload.of_prefix(16, lengths=(32,), page_size=0, d=4)


def test_levels_that_make_no_tree_are_refused():
    for levels in (((30, 4),), ((32, 4), (16, 3)), ((0, 2),)):
        with pytest.raises(InvalidInput, match="are no tree; give whole pages of 16 keys"):
            PagedWorkload.of_levels(levels, own=1, page_size=16, d=4)


def test_parts_are_counted_by_kind_however_many_requests_there_are():
    workload = PagedWorkload.of_levels(((16, 300_000),), own=5, page_size=8, d=4, heads=6, kv_heads=2)
    kinds = kinds_of(workload, plan_pages(workload, 2**22).tree)
    assert sorted(kinds) == [(3, 5, 1, True, 300_000), (900_000, 16, 2, False, 1)]


@pytest.mark.parametrize("page", [2**70, -1])
def test_a_page_has_a_number_that_a_table_can_hold(page):
    with pytest.raises(InvalidInput, match=f"request 1 has page {page:,}; pages are numbered from 0 up to"):
        PagedWorkload(lengths=(5, 6), table=((0,), (page,)), page_size=8, d=4)
