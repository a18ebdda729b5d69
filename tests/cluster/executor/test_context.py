"""What layers of a model may not hand over where their sequences are spread over devices."""

from types import SimpleNamespace

import pytest
import torch

from attenio.errors import InvalidInput
from attenio.kernels.transformers import Layer, forward, instead_of_attention, mask

MODULE = SimpleNamespace(is_causal=True, config=SimpleNamespace(model_type="toy"))
HEADS = [torch.randn(1, 2, 5, 4) for _ in range(3)]


def test_layers_within_are_computed_by_what_is_given_and_not_after() -> None:
    seen: list[Layer] = []

    def attend(layer: Layer) -> torch.Tensor:
        seen.append(layer)
        return layer.value + 1.0

    with instead_of_attention(attend):
        inside, _ = forward(MODULE, *HEADS, None, sliding_window=3, scaling=0.5)
    outside, _ = forward(MODULE, *HEADS, None)
    (layer,) = seen
    assert (layer.causal, layer.window, layer.scale) == (True, 3, 0.5)
    assert torch.equal(inside, (HEADS[2] + 1.0).transpose(1, 2))
    assert not torch.equal(outside, inside)


@pytest.mark.parametrize(("name", "given"), [("s_aux", torch.zeros(2)), ("softcap", 30.0)])
def test_sinks_and_caps_are_refused_and_not_dropped(name: str, given: object) -> None:
    with (
        instead_of_attention(lambda layer: layer.value),
        pytest.raises(InvalidInput, match=rf"attenio does not compute '{name}', which toy hands to its attention"),
    ):
        forward(MODULE, *HEADS, None, **{name: given})


def test_padding_is_refused_and_a_mask_that_hides_nothing_is_left_out() -> None:
    with instead_of_attention(lambda layer: layer.value):
        assert mask(attention_mask=torch.ones(1, 5, dtype=torch.bool)) is None
        with pytest.raises(InvalidInput, match=r"attention_mask hides some tokens, .* leave it out"):
            mask(attention_mask=torch.arange(5)[None] > 1)
