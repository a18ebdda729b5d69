"""Arrays that do not fit together are refused in one line that says how."""

import numpy as np
import pytest

from attenio.approximation.data import AttentionData, element_type_of
from attenio.elements import ElementType
from attenio.errors import InvalidInput


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("query", "key", "value", "said"),
    [
        ((4, 8), (4, 6), (4, 8), "query is 8 wide and key 6"),
        ((4, 8), (4, 8), (5, 8), "key has 4 rows and value 5"),
        ((3, 4, 8), (2, 4, 8), (2, 4, 8), "heads do not match"),
        ((4, 4, 8), (2, 4, 8), (1, 4, 8), "heads do not match"),
        ((2, 1, 4, 8), (1, 1, 4, 8), (2, 1, 4, 8), "batches differ"),
        ((8,), (4, 8), (4, 8), "query has 1 axes"),
        ((4, 8), (0, 8), (4, 8), "key is empty"),
    ],
)
def test_shapes_that_do_not_match_are_refused(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        AttentionData.of(zeros(*query), zeros(*key), zeros(*value))


def test_entries_that_are_not_finite_are_counted_and_located() -> None:
    key = zeros(2, 4, 8)
    key[1, 2, 3], key[1, 3, 0] = np.nan, np.inf
    with pytest.raises(InvalidInput, match=r"key has 2 entries that are not finite, the first at \(0, 1, 2, 3\)"):
        AttentionData.of(zeros(2, 4, 8), key, zeros(2, 4, 8))


def test_float64_beyond_single_precision_is_not_finite() -> None:
    with pytest.raises(InvalidInput, match="value has 1 entries"):
        AttentionData.of(zeros(1, 2), zeros(1, 2), np.array([[1e300, 0.0]]))


def test_integers_and_mixed_types_are_refused() -> None:
    with pytest.raises(InvalidInput, match="int64"):
        element_type_of(np.zeros(3, dtype=np.int64))
    with pytest.raises(InvalidInput, match="query fp16, key fp32"):
        AttentionData.of(zeros(2, 2).astype(np.float16), zeros(2, 2), zeros(2, 2))


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf")])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        AttentionData.of(zeros(2, 2), zeros(2, 2), zeros(2, 2), scale=scale)


def test_queries_that_share_a_head_are_stacked() -> None:
    query = np.arange(4 * 3 * 2, dtype=np.float32).reshape(4, 3, 2)
    heads = list(AttentionData.of(query, zeros(2, 5, 2), zeros(2, 5, 1), causal=True).heads())
    stacked = [query[:2].reshape(6, 2).tolist(), query[2:].reshape(6, 2).tolist()]
    assert [head.queries.tolist() for head in heads] == stacked
    assert heads[0].last_key(0, 6).tolist() == [2, 3, 4, 2, 3, 4]


def test_the_type_of_the_arrays_is_kept() -> None:
    import ml_dtypes

    array = zeros(2, 2).astype(ml_dtypes.bfloat16)
    assert AttentionData.of(array, array, array).dtype is ElementType.BF16


def test_what_only_double_precision_holds_is_called_too_large() -> None:
    ones = np.ones((2, 2))
    with pytest.raises(InvalidInput, match=r"key has 4 entries that are too large for fp32, .* \(1e\+300\)"):
        AttentionData.of(ones, ones * 1e300, ones)


def test_the_fingerprint_is_that_of_these_data_scale_mask_and_centre() -> None:
    draw = np.random.default_rng(0)
    q, k, v = (draw.uniform(-1, 1, (4, 2)).astype(np.float32) for _ in range(3))
    centre = np.zeros(2, np.float32)

    def of(*arrays: np.ndarray, centre: np.ndarray = centre, **options: float) -> str:
        (head,) = AttentionData.of(*arrays, **options).heads()
        return head.fingerprint(centre)

    others = [
        of(k, q, v),
        of(q, k, -v),
        of(q, k, v, scale=0.5),
        of(q, k, v, causal=True),
        of(q, k, v, centre=centre + 1),
    ]
    halves = of(q[:, :1], k[:, :1], v, centre=centre[:1], scale=2**-0.5)
    assert of(q.copy(), k.copy(), v.copy()) == of(q, k, v)
    assert len({of(q, k, v), halves, *others}) == 7
