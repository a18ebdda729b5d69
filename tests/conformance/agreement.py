"""One architecture with attn_implementation="attenio" beside its own eager attention: every check, and what came of it.

What eager itself cannot do is no check, and is told. Where eager answers, attenio agrees or refuses by a name that its
list of refusals has.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from tests.conformance.small import VOCABULARY, built, configured
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from attenio.errors import InvalidInput
from attenio.kernels import transformers as door

__all__ = ["Agreement", "agreement_of"]

BATCH, TOKENS, PADDED, NEW_TOKENS = 2, 19, 6, 5
# Of the largest number of a tensor; fp32 through two layers with scores of up to 50 leaves 1e-5 of it.
TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What came of one architecture."""

    architecture: str
    not_built: str | None = None
    asks: bool = False
    agreed: tuple[str, ...] = ()
    refused: str | None = None
    failed: dict[str, str] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        if self.not_built:
            return "not built"
        if self.failed:
            return "disagrees"
        if self.refused:
            return "refused by name"
        return "agrees" if self.asks else "has attention of its own"

    def __str__(self) -> str:
        said = self.not_built or self.refused or ", ".join(self.agreed)
        rest = [f"{name}: {why}" for name, why in (self.failed | self.impossible).items()]
        return f"{self.architecture}: {'; '.join([said, *rest])}"


def agreement_of(architecture: str, attention: Callable[..., Any] = door.forward) -> Agreement:
    """Run every check on a small model of this architecture; ``attention`` is what stands under attenio's name."""
    try:
        config = configured(architecture)
        eager = built(config, "eager")
        with torch.no_grad():
            eager(_tokens())
    except Exception as reason:  # whatever it is, it is told
        return Agreement(architecture=architecture, not_built=_line(reason))
    asked = 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return attention(*given, **named)

    door.register()
    AttentionInterface.register(door.NAME, counted)
    try:
        ours = built(config, door.NAME)
    except KeyError as reason:  # a table of classes by the names of implementations
        return Agreement(architecture=architecture, not_built=f"it knows no implementation {_line(reason)}")
    agreed, failed, impossible = [], {}, {}
    refused: str | None = None
    for name, check in CHECKS.items():
        try:
            theirs = check(eager)
        except Exception as reason:
            impossible[name] = f"eager cannot: {_line(reason)}"
            continue
        try:
            distance = _distance(check(ours), theirs)
        except Exception as reason:
            if isinstance(reason, InvalidInput) and any(repr(known) in str(reason) for known in door.REFUSED):
                refused = _line(reason)
                break
            failed[name] = _line(reason)
            continue
        if distance <= TOLERANCE:
            agreed.append(name)
        else:
            failed[name] = f"apart by {distance:.1e} of the largest"
    found = Agreement(architecture=architecture, asks=asked > 0, agreed=tuple(agreed), refused=refused)
    return replace(found, failed=failed, impossible=impossible)


def _tokens() -> Tensor:
    return torch.randint(4, VOCABULARY, (BATCH, TOKENS), generator=torch.Generator().manual_seed(2))


def _padding() -> Tensor:
    seen = torch.ones(BATCH, TOKENS, dtype=torch.int64)
    seen[0, :PADDED] = 0
    return seen


def _logits_and_gradients(model: PreTrainedModel) -> list[Tensor]:
    model.zero_grad(set_to_none=True)
    output = model(_tokens(), attention_mask=torch.ones_like(_tokens()), labels=_tokens())
    output.loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert any(gradient is not None for gradient in gradients)
    return [output.logits.detach(), *(torch.zeros(1) if gradient is None else gradient for gradient in gradients)]


def _left_padding(model: PreTrainedModel) -> list[Tensor]:
    with torch.no_grad():
        return [model(_tokens(), attention_mask=_padding()).logits[_padding().bool()]]


def _generated(model: PreTrainedModel, **options: Any) -> list[Tensor]:
    output = model.generate(
        _tokens(), attention_mask=_padding(), max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False,
        use_cache=True, output_logits=True, return_dict_in_generate=True, **options,
    )  # fmt: skip
    return list(output.logits)


CHECKS: dict[str, Callable[[PreTrainedModel], list[Tensor]]] = {
    "logits and gradients": _logits_and_gradients,
    "left padding": _left_padding,
    "generate, dynamic cache": _generated,
    "generate, static cache": partial(_generated, cache_implementation="static"),
}


def _distance(mine: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference, of the largest number of its tensor, or of a thousandth of that of all."""
    if not all(bool(torch.isfinite(eager).all()) for eager in theirs):
        raise ValueError("eager gives numbers that are not finite")
    least = max(1e-3 * max(float(eager.abs().max()) for eager in theirs), 1e-30)
    far = [
        float((ours - eager).abs().max()) / max(float(eager.abs().max()), least)
        for ours, eager in zip(mine, theirs, strict=True)
    ]
    return max(apart if apart == apart else float("inf") for apart in far)


def _line(reason: BaseException) -> str:
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return f"{type(reason).__name__}: {' '.join(lines)[:160]}"
