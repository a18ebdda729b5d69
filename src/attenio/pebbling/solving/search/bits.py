"""Sets of up to 256 elements as 64-bit words, for compiled code."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from attenio.pebbling.compiled import compiled
from attenio.pebbling.solving.search.encoding import EDGE_ROWS, HEADER, UNIT, WEIGHT

F = TypeVar("F", bound=Callable[..., Any])

inlined: Callable[[F], F] = cast(Any, njit(cache=True, inline="always"))
# What it decorates is called without the first argument, the compiler's context.
_builtin: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic

ONE = np.uint64(1)
NONE = np.uint64(0)


@_builtin
def lowest(_context: Any, _word: Any) -> Any:
    """The number of the lowest bit that is set."""

    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_builtin
def highest(_context: Any, _word: Any) -> Any:
    """The number of the highest bit that is set; of nothing but words that have one."""

    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sub(ir.Constant(ir.IntType(64), 63), builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0)))

    return types.int64(types.uint64), generate


@_builtin
def population(_context: Any, _word: Any) -> Any:
    """How many bits are set."""

    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@inlined
def has(words: Any, base: Any, element: Any) -> Any:
    """Whether the set that begins at ``words[base]`` has the element."""
    return (words[base + (element >> 6)] >> np.uint64(element & 63)) & ONE != NONE


@inlined
def add(words: Any, base: Any, element: Any) -> Any:
    """Put the element into the set."""
    words[base + (element >> 6)] |= ONE << np.uint64(element & 63)


@inlined
def remove(words: Any, base: Any, element: Any) -> Any:
    """Take the element out of the set."""
    words[base + (element >> 6)] &= ~(ONE << np.uint64(element & 63))


@inlined
def words_of(game: Any, vertex: Any) -> Any:
    """The weight of a vertex."""
    return np.int64(game[vertex, WEIGHT])


@inlined
def fact(game: Any, column: Any) -> Any:
    """A number that holds for the whole game."""
    return np.int64(game[HEADER, column])


@inlined
def is_input(game: Any, vertex: Any) -> Any:
    """Whether a vertex is an input."""
    return (game[HEADER, vertex >> 6] >> np.uint64(vertex & 63)) & ONE != NONE


@inlined
def is_output(game: Any, vertex: Any) -> Any:
    """Whether a vertex is an output."""
    return (game[HEADER, 2 + (vertex >> 6)] >> np.uint64(vertex & 63)) & ONE != NONE


@inlined
def edge_from(game: Any, edge: Any) -> Any:
    """Where an edge begins."""
    return np.int64(game[EDGE_ROWS + (edge >> 4), edge & 15] >> np.uint64(8))


@inlined
def edge_to(game: Any, edge: Any) -> Any:
    """Where an edge ends."""
    return np.int64(game[EDGE_ROWS + (edge >> 4), edge & 15] & np.uint64(255))


@compiled
def copy_words(source: Any, target: Any, count: Any) -> Any:
    """Copy the first words of an array, one by one: assigning slices compiles messages for shapes that do not match."""
    for word in range(count):
        target[word] = source[word]


@compiled
def weigh(game: Any, low: Any, high: Any) -> Any:
    """Words that a set of vertices takes."""
    if game[HEADER, UNIT]:
        return population(low) + population(high)
    total = 0
    while low:
        total += words_of(game, lowest(low))
        low &= low - ONE
    while high:
        total += words_of(game, 64 + lowest(high))
        high &= high - ONE
    return total
