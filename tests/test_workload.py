"""Laws of workloads: counts of patterns against masks drawn score by score."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import (
    BlockSparse,
    Causal,
    Dense,
    Documents,
    Mask,
    SharedPrefix,
    SlidingWindow,
)
from attenio.workload import Workload

laws = settings(deadline=None, derandomize=True, max_examples=26)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    queries, keys = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    mask: Mask
    match draw(st.sampled_from(["dense", "causal", "window", "documents", "prefix", "blocks"])):
        case "dense":
            mask = Dense()
        case "causal":
            mask = Causal()
        case "window":
            mask = SlidingWindow(width=draw(st.integers(1, keys)), causal=draw(st.booleans()))
        case "documents":
            shapes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4))
            rows, columns = zip(*shapes, strict=True)
            mask = Documents(lengths=rows, key_lengths=columns, causal=draw(st.booleans()))
            queries, keys = sum(rows), sum(columns)
        case "prefix":
            keys = queries + draw(st.integers(1, 6))
            mask = SharedPrefix(length=draw(st.integers(1, keys - queries)), causal=draw(st.booleans()))
        case _:
            block = draw(st.integers(1, 5))
            shape = (-(-queries // block), -(-keys // block))
            bits = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
            mask = BlockSparse.from_array(np.array(bits).reshape(shape), query_block=block)
    group, kv_heads, batch = (draw(st.integers(1, 3)) for _ in range(3))
    d, value_dim = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return Workload(
        queries=queries,
        keys=keys,
        d=d,
        value_dim=value_dim,
        heads=group * kv_heads,
        kv_heads=kv_heads,
        batch=batch,
        mask=mask,
    )


def required(workload: Workload) -> NDArray[np.bool_]:
    """The mask score by score, from its definition."""
    rows, columns = np.mgrid[: workload.queries, : workload.keys]
    shift = workload.keys - workload.queries
    mask = workload.mask
    match mask:
        case Dense():
            return np.ones(rows.shape, dtype=bool)
        case Causal():
            return np.asarray(columns <= rows + shift)
        case SlidingWindow(width=width, causal=causal):
            ahead = columns - rows - shift
            return np.asarray((ahead > -width) & (ahead <= (0 if causal else width - 1)))
        case SharedPrefix(causal=causal):
            return np.asarray((columns <= rows + shift) | (not causal))
        case BlockSparse():
            return np.asarray(mask.array[rows // mask.query_block, columns // mask.key_block])
        case Documents():
            result = np.zeros(rows.shape, dtype=bool)
            top = left = 0
            for height, width in zip(mask.lengths, mask.key_lengths, strict=True):
                inner = np.mgrid[:height, :width]
                allowed = inner[1] <= inner[0] + width - height if mask.causal else np.ones((height, width), dtype=bool)
                result[top : top + height, left : left + width] = allowed
                top, left = top + height, left + width
            return result


@laws
@given(workloads())
def test_required_scores_are_those_of_the_mask(workload: Workload) -> None:
    assert workload.scores == workload.batch * workload.heads * int(required(workload).sum())


@laws
@given(workloads())
def test_compulsory_words_read_what_is_touched_once_and_write_every_output(workload: Workload) -> None:
    mask = required(workload)
    rows, keys = int(mask.any(axis=1).sum()), int(mask.any(axis=0).sum())
    key_rows = workload.batch * keys
    if isinstance(workload.mask, SharedPrefix):  # the prefix is read once for the whole batch
        prefix = int(mask[:, : workload.mask.length].any(axis=0).sum())
        key_rows -= (workload.batch - 1) * prefix
    expected = (
        workload.batch * workload.heads * (rows * workload.d + workload.queries * workload.value_dim)
        + workload.kv_heads * key_rows * (workload.d + workload.value_dim)
    )  # fmt: skip
    assert workload.compulsory_words == expected


@laws
@given(workloads())
def test_patterns_cover_every_row_and_key_of_a_workload(workload: Workload) -> None:
    separate = workload.separate_patterns
    assert sum(p.rows * count for p, count in separate) == workload.queries
    assert sum(p.keys * count for p, count in separate) == workload.keys
    stacked = sum(p.rows * count for p, count in workload.stacked_patterns)
    assert stacked == workload.queries * workload.batch
    assert sum(p.scores * c for p, c in workload.stacked_patterns) * workload.heads == workload.scores


@laws
@given(workloads())
def test_equal_workloads_are_equal_values(workload: Workload) -> None:
    same = replace(workload)
    assert same == workload
    assert hash(same) == hash(workload)
    assert replace(workload, d=workload.d + 1) != workload


def test_n_sets_both_lengths_and_each_can_be_set_alone() -> None:
    assert (Workload(n=8, d=2).queries, Workload(n=8, d=2).keys) == (8, 8)
    decode = Workload(n=8, queries=1, d=2)
    assert (decode.queries, decode.keys, decode.is_decode) == (1, 8, True)
    with pytest.raises(InvalidInput, match="keys is not given"):
        Workload(queries=3, d=2)


@pytest.mark.parametrize("name", ["n", "queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch"])
@pytest.mark.parametrize("value", [0, -1, 10**12, float("nan"), 2.5, "8x", True])
def test_a_size_that_is_no_size_is_refused_by_name(name: str, value: object) -> None:
    arguments: dict[str, object] = {"n": 8, "d": 4}
    with pytest.raises(InvalidInput, match=f"^{name} is "):
        Workload(**{**arguments, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 8, "kv_heads": 3}, "8 query heads cannot share 3 KV heads"),
        ({"mask": "window:9"}, "window 9 is wider than the 8 keys"),
        ({"mask": "documents:3,4"}, "add up to 7 but there are 8 queries"),
        ({"mask": "prefix:8"}, "prefix 8 leaves no own key of 8"),
        ({"mask": "prefix:4"}, "8 queries do not fit behind a prefix of 4"),
        ({"mask": BlockSparse(layout=((True,),), query_block=4, key_block=8)}, "1 rows of 4 for a length of 8"),
        ({"dtype": "fp32", "accumulator": "fp16"}, "accumulator fp16 is narrower"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"dtype": "int4"}, "unknown element type 'int4'"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Workload(n=8, d=4, **arguments)  # type: ignore[arg-type]


def test_an_accumulator_is_counted_in_words_of_the_element_type() -> None:
    words = {
        (dtype.value, accumulator.value): Workload(n=1, d=1, dtype=dtype, accumulator=accumulator).accumulator_words
        for dtype in ElementType
        for accumulator in ElementType
        if accumulator.bytes >= dtype.bytes
    }
    assert words[("fp16", "fp32")] == 2
    assert words[("fp8", "fp32")] == 4
    assert words[("fp32", "fp32")] == 1
    assert Workload(n=1, d=1, dtype="fp8").accumulator_words == 1


def test_the_scale_is_one_over_the_root_of_d_unless_given() -> None:
    assert Workload(n=1, d=64).softmax_scale == 0.125
    assert Workload(n=1, d=64, scale=-2.0).softmax_scale == -2.0


def test_a_workload_reads_as_a_line() -> None:
    workload = Workload(queries=1, keys=8192, d=192, value_dim=128, heads=8, kv_heads=2, mask="causal", dtype="bf16")
    assert str(workload) == "queries=1 keys=8,192 d=192 value_dim=128 heads=8/2 KV batch=1 causal bf16"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"mask": None}, "mask is None; give a mask from attenio.masks, or text such as 'causal'"),
        ({"scale": "a"}, "scale is 'a'; give a number, or leave it out"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_when_the_workload_is_made(wrong, line):
    with pytest.raises(InvalidInput) as refused:
        Workload(n=10, d=8, **wrong)
    assert str(refused.value) == line


def test_a_tolerance_and_an_entry_bound_are_kept_in_every_direction_and_said() -> None:
    workload = Workload(n=64, d=8, tolerance=0.01, entry_bound=1)
    assert workload.towards("backward").tolerance == 0.01
    assert str(workload).endswith("fp16 tolerance=0.01 entries<=1")
    assert "tolerance" not in str(Workload(n=64, d=8))
    assert Workload(n=64, d=8).tolerance is None


@pytest.mark.parametrize("name", ["tolerance", "entry_bound"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "much", True])
def test_what_is_no_positive_number_is_no_tolerance_and_no_bound(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is .*; give a finite number above 0, such as 0"):
        Workload(n=64, d=8, **{name: value})


def test_replacing_a_field_gives_that_value_or_refuses_in_one_line() -> None:
    base = Workload(n=1024, d=64)
    with pytest.raises(InvalidInput, match=r"^n is 5 but queries is 1,024 and keys is 1,024; [^\n]*$"):
        replace(base, n=5)
    assert replace(base, queries=5, keys=5) == Workload(n=5, d=64)
    assert replace(base, n=1024) == base


def test_a_keyword_that_is_none_is_refused_by_name_with_the_closest() -> None:
    with pytest.raises(TypeError, match=r"Workload got an unexpected keyword argument 'head'; did you mean heads\?$"):
        Workload(n=8, d=2, head=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Workload got an unexpected keyword argument 'xyz'$"):
        replace(Workload(n=8, d=2), xyz=4)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        Workload(n=8)  # type: ignore[call-arg]


def test_a_length_that_contradicts_the_two_others_is_refused() -> None:
    with pytest.raises(InvalidInput, match="n is 5 but queries is 6 and keys is 7"):
        Workload(n=5, queries=6, keys=7, d=8)
    with pytest.raises(InvalidInput, match="n is 5 but queries is 5 and keys is 7"):
        Workload(n=5, queries=5, keys=7, d=8)
    assert Workload(n=5, queries=2, d=8) == Workload(queries=2, keys=5, d=8)
    assert Workload(n=5, keys=2, d=8) == Workload(queries=5, keys=2, d=8)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            {"queries": 1, "keys": 1, "mask": "prefix:2"},
            "prefix 2 leaves no own key of 1; use 3 keys or more, or another mask",
        ),
        ({"queries": 2, "keys": 8, "mask": "prefix:8"}, "prefix 8 leaves no own key of 8; use a prefix up to 6"),
        ({"queries": 8, "keys": 8, "mask": "prefix:8:full"}, "prefix 8 leaves no own key of 8; use a prefix up to 7"),
        ({"queries": 3, "keys": 8, "mask": "prefix:6"}, "in 8 keys; use at most 2 queries, or a prefix up to 5"),
        ({"queries": 8, "keys": 8, "mask": "prefix:7"}, "use at most 1 query, or 15 keys or more, or another mask"),
    ],
)
def test_what_is_said_of_a_prefix_can_be_done(sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        Workload(**sizes, d=2)
    assert str(problem.value).endswith(said)
    length, keys = (int(re.findall(r"\d+", each)[0]) for each in (sizes["mask"], said.rpartition("use ")[2]))
    if "or more" not in said:
        most = int(said.rpartition("up to ")[2])
        Workload(**{**sizes, "mask": sizes["mask"].replace(str(length), str(most))}, d=2)
    elif "prefix" in said.partition(";")[0]:
        Workload(**{**sizes, "keys": keys}, d=2)


@pytest.mark.parametrize(
    "asked", [{"mask": np.ones((64, 64), bool)}, {"n": np.ones((9, 9))}, {"scale": np.ones((9, 9))}]
)
def test_an_array_in_the_place_of_a_value_is_told_in_one_line(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^(mask|n|scale) is (array|ndarray)[^\n]*$"):
        Workload(**{"n": 64, "d": 4, **asked})
