"""A share of what ``make conformance`` does, and that its checks can fail."""

import pytest
from tests.conformance.agreement import agreement_of
from tests.conformance.small import architectures

from attenio.errors import InvalidInput
from attenio.kernels import transformers as door
from attenio.kernels.attention import attention

# Every twentieth of the names in order; every_architecture.py has all.
SHARE = architectures()[::20]


def test_most_architectures_of_a_share_ask_for_attention_and_none_disagrees_with_eager():
    found = [agreement_of(architecture) for architecture in SHARE]
    print("\n".join(f"{each.kind}: {each}" for each in found))
    assert not [str(each) for each in found if each.failed]
    assert sum(each.kind == "agrees" for each in found) > len(found) // 2


def careless(module, query, key, value, attention_mask, **named):
    """What attenio did once: it leaves out whatever it does not know."""
    kept = {name: named[name] for name in ("dropout", "scaling", "is_causal") if name in named}
    return door.forward(module, query, key, value, attention_mask, **kept)


def sighted(module, query, key, value, attention_mask, scaling=None, **_):
    """Causality alone, whatever the mask says."""
    output = attention(query, key, value, is_causal=query.shape[2] > 1, scale=scaling, enable_gqa=True)
    return output.transpose(1, 2).contiguous(), None


@pytest.mark.parametrize(
    ("architecture", "wrong", "checks"),
    [
        ("gpt_oss", careless, {"logits and gradients", "left padding", "generate, dynamic cache"}),
        ("gemma2", careless, {"logits and gradients"}),
        ("mistral", sighted, {"logits and gradients", "left padding", "generate, static cache"}),
    ],
)
def test_attention_without_its_sinks_its_cap_or_its_mask_is_found_out(architecture, wrong, checks):
    found = agreement_of(architecture, attention=wrong)
    assert found.kind == "disagrees" and checks <= found.failed.keys(), str(found)


def test_a_refusal_counts_only_by_a_name_that_is_listed():
    def unknown(*_, **__):
        raise InvalidInput("attenio does not compute 'something', which nobody listed")

    assert agreement_of("llama", attention=unknown).kind == "disagrees"

    def listed(module, *_, **__):
        raise door._refusal(module, "position_bias", door.REFUSED["position_bias"])

    assert agreement_of("llama", attention=listed).kind == "refused by name"
    assert agreement_of("gemma2").kind == agreement_of("gpt_oss").kind == "agrees"


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Leave the right attention under the name."""
    yield
    door.register()
