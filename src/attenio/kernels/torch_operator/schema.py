"""The arguments of the registered operators, flat and by name, in the order of their schemas.

Programs that were exported call the operators by these schemas: fields are added at the end, with a default, or not.
"""

from typing import Any, NamedTuple, get_type_hints

from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility


class Arguments(NamedTuple):
    """Those of ``attenio::attention``: heads, what is visible, the seed of a dropout, and numbers."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    first: Tensor | None
    stop: Tensor | None
    query_ids: Tensor | None
    key_ids: Tensor | None
    blocks: Tensor | None
    seed: Tensor | None
    scale: float
    below: int
    above: int
    query_block: int
    key_block: int
    prefix: int
    dropout_p: float
    deterministic: bool
    sinks: Tensor | None = None
    softcap: float = 0.0
    segments: int = 0

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that may be tensors."""
        return *self[:_NUMBERS], self.sinks

    @property
    def numbers(self) -> tuple[Any, ...]:
        """All numbers that come before the sinks: calls that have a form have no others."""
        return self[_NUMBERS:_SINKS]

    @property
    def with_form(self) -> tuple[Tensor, ...]:
        """The tensors of a call that has a form: the heads, and a mask if there is one."""
        return self[:HEADS] if self.bias is None else (*self[:HEADS], self.bias)


class BackwardArguments(NamedTuple):
    """Those of ``attenio::attention_backward``: the same without a prefix, results, and the gradient of the output."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    first: Tensor | None
    stop: Tensor | None
    query_ids: Tensor | None
    key_ids: Tensor | None
    blocks: Tensor | None
    seed: Tensor | None
    output: Tensor
    largest: Tensor
    total: Tensor
    gradient: Tensor
    scale: float
    below: int
    above: int
    query_block: int
    key_block: int
    dropout_p: float
    deterministic: bool
    with_bias: bool
    sinks: Tensor | None = None
    softcap: float = 0.0
    segments: int = 0

    @classmethod
    def after(
        cls, given: Arguments, results_and_gradient: tuple[Tensor, ...], *, deterministic: bool
    ) -> "BackwardArguments":
        """Those of a call's gradients, by its arguments, its results and the gradient of its output."""
        numbers = given.scale, given.below, given.above, given.query_block, given.key_block, given.dropout_p
        tensors = *given[:_NUMBERS], *results_and_gradient
        return cls._make((*tensors, *numbers, deterministic, False, given.sinks, given.softcap, given.segments))

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All that may be tensors."""
        return *self[:_BACKWARD_NUMBERS], self.sinks

    @property
    def numbers(self) -> tuple[Any, ...]:
        """All numbers that come before the sinks: calls that have a form have no others."""
        return self[_BACKWARD_NUMBERS:_BACKWARD_SINKS]

    @property
    def with_form(self) -> tuple[Tensor, ...]:
        """The tensors of a call that has a form: heads, results and gradient."""
        return self.query, self.key, self.value, self.output, self.largest, self.total, self.gradient


Flat = Arguments | BackwardArguments
# Heads come first, and numbers behind all tensors; slices take less time than names.
HEADS = Arguments._fields.index("bias")
_NUMBERS = Arguments._fields.index("scale")
_SINKS = Arguments._fields.index("sinks")
_BACKWARD_NUMBERS = BackwardArguments._fields.index("scale")
_BACKWARD_SINKS = BackwardArguments._fields.index("sinks")
_WORDS = {Tensor: "Tensor", Tensor | None: "Tensor?", float: "float", int: "SymInt", bool: "bool"}


def schema_of(arguments: type[Flat], results: int) -> str:
    """The schema of an operator that takes these arguments and gives so many tensors."""
    defaults = {name: f"={default}" for name, default in arguments._field_defaults.items()}
    hints = get_type_hints(arguments).items()
    parameters = ", ".join(f"{_WORDS[kind]} {name}{defaults.get(name, '')}" for name, kind in hints)
    return f"({parameters}) -> ({', '.join(['Tensor'] * results)})"


def is_restricted(given: Flat) -> bool:
    """Whether a tensor other than a mask restricts the call, weights are dropped, or scores are more than scaled."""
    free = given.first is given.stop is given.query_ids is given.key_ids is given.blocks is given.seed is given.sinks
    return not (free and given.sinks is None) or given.softcap != 0.0


def problem_of(given: Flat, **rest: object) -> KernelProblem:
    """What flat arguments mean."""
    visible = Visibility.unflattened(given)
    return KernelProblem.of_heads(
        given.query, given.key, given.value, visible, given.scale, softcap=given.softcap, **rest
    )
