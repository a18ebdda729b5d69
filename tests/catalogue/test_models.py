"""Laws of the model catalogue."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import Model, model_named, models
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow

NAMES = [model.name for model in models()]
laws = settings(deadline=None, derandomize=True, max_examples=17)
any_model = st.sampled_from(models())


@pytest.mark.parametrize("model", models(), ids=NAMES)
def test_every_model_says_where_its_shape_comes_from(model: Model) -> None:
    assert model.source
    assert model.description
    assert model_named(model.name.upper()) is model
    assert model.workload().keys == model.context


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "layers", "heads", "kv_heads", "d"),
    [
        ("gpt-3-175b", 96, 96, 96, 128),
        ("llama-3-8b", 32, 32, 8, 128),
        ("llama-3-70b", 80, 64, 8, 128),
        ("llama-3-405b", 126, 128, 8, 128),
        ("qwen-3-235b-a22b", 94, 64, 4, 128),
        ("gemma-7b", 28, 16, 16, 256),
        ("vit-b-16", 12, 12, 12, 64),
    ],
)
def test_shapes_are_the_published_ones(name: str, layers: int, heads: int, kv_heads: int, d: int) -> None:
    model = model_named(name)
    shape = model.prefill
    assert (model.layers, shape.heads, shape.kv_heads, shape.d, shape.value_dim) == (layers, heads, kv_heads, d, d)


@laws
@given(any_model, st.integers(1, 2**20), st.integers(1, 8))
def test_a_workload_has_the_model_s_heads_and_the_lengths_asked_for(model: Model, n: int, batch: int) -> None:
    workload = model.workload(n=n, batch=batch)
    assert (workload.queries, workload.keys, workload.batch) == (n, n, batch)
    decode = model.workload(n=n, decode=True)
    assert (decode.queries, decode.keys, decode.heads) == (1, n, model.decode.heads)
    assert decode == model.workload(keys=n, queries=1)


@laws
@given(st.integers(1, 2**20))
def test_a_window_is_felt_only_by_longer_sequences(n: int) -> None:
    mask = model_named("mistral-7b").workload(n=n).mask
    assert mask == (Causal() if n <= 4096 else SlidingWindow(width=4096))


def test_latent_attention_is_expanded_for_prefill_and_absorbed_for_decode() -> None:
    model = model_named("deepseek-v3")
    prefill, decode = model.workload(n=4096), model.workload(n=4096, decode=True)
    assert (prefill.heads, prefill.kv_heads, prefill.d, prefill.value_dim) == (128, 128, 128 + 64, 128)
    assert (decode.heads, decode.kv_heads, decode.d, decode.value_dim) == (128, 1, 512 + 64, 512)
    assert prefill.softmax_scale == decode.softmax_scale == pytest.approx(192**-0.5)


def test_a_vision_model_sees_everything() -> None:
    workload = model_named("vit-l-16").workload()
    assert (workload.keys, workload.mask) == (197, Dense())


@pytest.mark.parametrize(
    ("wrong", "right"), [("llama", "llama-3-8b"), ("lama-3-70b", "llama-3-70b"), ("deepseek", "deepseek-v3")]
)
def test_an_unknown_model_suggests_the_closest(wrong: str, right: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        model_named(wrong)
    assert f"unknown model {wrong!r}; did you mean {right}? 'attenio models' lists all" in str(caught.value)


def test_a_model_without_a_context_asks_for_a_length() -> None:
    shape = model_named("vit-b-16").prefill
    model = Model(name="m", layers=1, prefill=shape, decode=shape, context=None, mask=Dense(), dtype=ElementType.FP16)
    assert model.workload(n=5).keys == 5
    with pytest.raises(InvalidInput, match="model m states no context length; give n"):
        model.workload()


def test_a_length_that_the_two_others_contradict_is_refused() -> None:
    model = model_named("llama-3-8b")
    for asked in ({"queries": 6}, {"decode": True}):
        with pytest.raises(InvalidInput, match="n is 5 but queries is"):
            model.workload(n=5, keys=7, **asked)
