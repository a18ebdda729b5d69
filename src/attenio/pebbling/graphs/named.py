"""Graphs by name, for the command line: which there are, what they take, and how they are built.

>>> named_graph("attention", {"n": 2, "d": 1, "softmax": "unshifted"}).name
'attention'
>>> len(named_graph("pyramid", {"height": "3"}))
10
>>> named_graph("pyramyd", {})
Traceback (most recent call last):
attenio.errors.InvalidInput: graph 'pyramyd' is not known; did you mean pyramid? there are product, tall-skinny, \
attention, attention-backward, strassen, fft, pyramid, binary-tree, stencil
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.masks import Dense
from attenio.names import did_you_mean
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.attention_backward import attention_backward
from attenio.pebbling.graphs.fft import fft
from attenio.pebbling.graphs.product import product, tall_skinny
from attenio.pebbling.graphs.pyramid import binary_tree, pyramid
from attenio.pebbling.graphs.stencil import stencil
from attenio.pebbling.graphs.strassen import strassen
from attenio.quantities import checked_count, parse_count
from attenio.reference import segments
from attenio.workload import Workload

Value = int | str | Enum
AnyEnum = TypeVar("AnyEnum", bound=Enum)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What a graph takes: its name, what it is when not given (none: another one decides), and what it means."""

    name: str
    default: int | str | None
    meaning: str


class _Given:
    """Parameters as people gave them, read as what the builder needs."""

    def __init__(self, values: Mapping[str, Value | None]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def count(self, name: str) -> int:
        value = self._values[name]
        # What is no text goes on as it is: the builder says what is wrong with it.
        return parse_count(value, name) if isinstance(value, str) else value  # type: ignore[return-value]

    def length(self, name: str) -> int:
        """A length of its own, or n."""
        return self.count(name) if self.has(name) else checked_count("n", self.count("n"))

    def text(self, name: str) -> str:
        return str(self._values[name])

    def choice(self, name: str, kind: type[AnyEnum]) -> AnyEnum:
        value = self._values[name]
        if isinstance(value, kind):
            return value
        by_text = {str(member.value): member for member in kind}
        if str(value).strip().lower() not in by_text:
            raise InvalidInput(f"{name} is {value!r}; {did_you_mean(str(value), by_text)}use {', '.join(by_text)}")
        return by_text[str(value).strip().lower()]


@dataclass(frozen=True, kw_only=True)
class NamedGraph:
    """A graph that can be asked for by name."""

    meaning: str
    parameters: tuple[Parameter, ...]
    build: Callable[[_Given], ComputationGraph]


_ACCUMULATION = Parameter(name="accumulation", default="chain", meaning="how sums are made: chain, tree or wide")
_HEAD = (
    Parameter(name="n", default=2, meaning="query rows and keys, where rows and keys are not given"),
    Parameter(name="rows", default=None, meaning="query rows"),
    Parameter(name="keys", default=None, meaning="keys"),
    Parameter(name="d", default=2, meaning="width of queries and keys"),
    Parameter(name="value_dim", default=None, meaning="width of values, d where it is not given"),
    Parameter(name="mask", default="dense", meaning="required scores: dense, causal, window:2, documents:2,1, ..."),
)


GRAPHS: dict[str, NamedGraph] = {
    "product": NamedGraph(
        meaning="matrix product C = A B",
        parameters=(
            Parameter(name="n", default=2, meaning="rows, columns and depth, where they are not given"),
            Parameter(name="rows", default=None, meaning="rows of A"),
            Parameter(name="columns", default=None, meaning="columns of B"),
            Parameter(name="depth", default=None, meaning="columns of A, rows of B"),
            _ACCUMULATION,
        ),
        build=lambda given: product(
            rows=given.length("rows"),
            columns=given.length("columns"),
            depth=given.length("depth"),
            accumulation=given.choice("accumulation", Accumulation),
        ),
    ),
    "tall-skinny": NamedGraph(
        meaning="product of an n x d and a d x n matrix",
        parameters=(
            Parameter(name="n", default=3, meaning="rows of A and columns of B"),
            Parameter(name="d", default=2, meaning="columns of A and rows of B"),
            _ACCUMULATION,
        ),
        build=lambda given: tall_skinny(given.count("n"), given.count("d"), given.choice("accumulation", Accumulation)),
    ),
    "attention": NamedGraph(
        meaning="one attention head, forward",
        parameters=(
            *_HEAD,
            Parameter(
                name="softmax",
                default=Softmax.PLAIN.value,
                meaning=f"what a probability waits for: {', '.join(form.value for form in Softmax)}",
            ),
            _ACCUMULATION,
        ),
        build=lambda given: attention(
            _head(given),
            softmax=given.choice("softmax", Softmax),
            accumulation=given.choice("accumulation", Accumulation),
        ),
    ),
    "attention-backward": NamedGraph(
        meaning="gradient of one attention head",
        parameters=(*_HEAD, _ACCUMULATION),
        build=lambda given: attention_backward(_head(given), accumulation=given.choice("accumulation", Accumulation)),
    ),
    "strassen": NamedGraph(
        meaning="square matrix product by Strassen's recursion",
        parameters=(
            Parameter(name="n", default=2, meaning="rows and columns, a multiple of 2**levels"),
            Parameter(name="levels", default=1, meaning="levels of the recursion; what is left is a plain product"),
        ),
        build=lambda given: strassen(given.count("n"), given.count("levels")),
    ),
    "fft": NamedGraph(
        meaning="butterfly graph of the fast Fourier transform",
        parameters=(Parameter(name="points", default=8, meaning="values transformed, a power of two"),),
        build=lambda given: fft(given.count("points")),
    ),
    "pyramid": NamedGraph(
        meaning="pyramid on height + 1 inputs",
        parameters=(Parameter(name="height", default=4, meaning="levels above the inputs"),),
        build=lambda given: pyramid(given.count("height")),
    ),
    "binary-tree": NamedGraph(
        meaning="complete binary tree on 2**height inputs",
        parameters=(Parameter(name="height", default=3, meaning="levels above the inputs"),),
        build=lambda given: binary_tree(given.count("height")),
    ),
    "stencil": NamedGraph(
        meaning="Jacobi stencil on a line or a plane",
        parameters=(
            Parameter(name="points", default=5, meaning="points along each axis"),
            Parameter(name="steps", default=2, meaning="steps in time"),
            Parameter(name="radius", default=1, meaning="how far neighbours lie along each axis"),
            Parameter(name="dimensions", default=1, meaning="1 (a line) or 2 (a plane)"),
        ),
        build=lambda given: stencil(*(given.count(each) for each in ("points", "steps", "radius", "dimensions"))),
    ),
}


def named_graph(name: str, parameters: Mapping[str, Value | None]) -> ComputationGraph:
    """The graph of that name, with defaults for what is not given or None.

    Counts may be numbers or text such as ``128`` or ``1K``, choices their text or their value.
    """
    named = GRAPHS.get(name.strip().lower())
    if named is None:
        raise InvalidInput(f"graph {name!r} is not known; {did_you_mean(name, GRAPHS)}there are {', '.join(GRAPHS)}")
    takes = {parameter.name: parameter.default for parameter in named.parameters}
    for given in parameters:
        if given not in takes:
            raise InvalidInput(f"{name} takes no {given!r}; {did_you_mean(given, takes)}it takes {', '.join(takes)}")
    return named.build(_Given(takes | {given: value for given, value in parameters.items() if value is not None}))


def _head(given: _Given) -> Head:
    rows, keys, d = given.length("rows"), given.length("keys"), given.count("d")
    width = given.count("value_dim") if given.has("value_dim") else d
    head = Head(rows=rows, keys=keys, d=d, value_dim=width)
    # Head has refused what is too large before the mask becomes a matrix of that size.
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=width, mask=given.text("mask"))
    if isinstance(workload.mask, Dense):
        return head
    return Head(rows=rows, keys=keys, d=d, value_dim=width, required=_required(workload))


def _required(workload: Workload) -> NDArray[np.bool_]:
    required = np.zeros((workload.queries, workload.keys), dtype=np.bool_)
    for segment in segments(workload):
        pattern = segment.pattern
        required[segment.rows, segment.keys] = pattern.required(
            0, pattern.rows, np.arange(pattern.keys, dtype=np.int64)
        )
    return required
