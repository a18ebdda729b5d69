"""Inputs of a run: random ones, or the caller's, checked and rounded to the element type."""

from collections.abc import Sequence
from math import floor, log10
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import SharedPrefix
from attenio.names import show_value
from attenio.quantities import checked_count, show_shape
from attenio.workload import Direction, Workload, checked_workload

# Scores are kept in float32. The gradient takes exponentials of their differences with a saved log-sum-exp, which says
# nothing once scores are so large that its last digit is worth a power of e or more.
_LARGEST_SCORE = 1e38
_LARGEST_SAVED_SCORE = 1e8
_LARGEST_SEED = 2**128 - 1

Given = Sequence[ArrayLike] | None


class Inputs(NamedTuple):
    """Queries, keys and values as (batch, heads, rows, width) arrays; k and v have one head per KV head."""

    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]


def _shapes(workload: Workload) -> dict[str, tuple[int, int, int, int]]:
    return {
        "q": (workload.batch, workload.heads, workload.queries, workload.d),
        "k": (workload.batch, workload.kv_heads, workload.keys, workload.d),
        "v": (workload.batch, workload.kv_heads, workload.keys, workload.value_dim),
    }


def random_inputs(workload: Workload, seed: int = 0) -> Inputs:
    """Normal random inputs, rounded to the element type; a shared prefix is the same in every request.

    Queries and keys whose entries are bounded are uniform between the bounds instead.

    >>> random_inputs(Workload(n=8, d=2, heads=4, kv_heads=2)).k.shape
    (1, 2, 8, 2)
    """
    checked_workload(workload)
    draw = np.random.default_rng(checked_count("seed", seed, least=0, most=_LARGEST_SEED))
    arrays = Inputs(*(draw.standard_normal(shape, dtype=np.float32) for shape in _shapes(workload).values()))
    if workload.entry_bound is not None:
        most = _largest_within(workload.entry_bound, workload.dtype)
        q, k = (draw.uniform(-most, most, size=x.shape).astype(np.float32) for x in (arrays.q, arrays.k))
        arrays = Inputs(q, k, arrays.v)
    if isinstance(workload.mask, SharedPrefix):
        shared = slice(0, workload.mask.length)
        arrays.k[:, :, shared] = arrays.k[:1, :, shared]
        arrays.v[:, :, shared] = arrays.v[:1, :, shared]
    if workload.values_in_keys:
        arrays = arrays._replace(v=arrays.k[..., : workload.value_dim])
    return _in_fewer_bits(workload, Inputs(*(workload.dtype.rounded(array) for array in arrays)))


def random_sinks(workload: Workload, seed: int = 0) -> NDArray[np.float32] | None:
    """Normal random sinks, one a query head, rounded to the element type; None for a workload without."""
    draw = np.random.default_rng((checked_count("seed", seed, least=0, most=_LARGEST_SEED), 2))
    return workload.dtype.rounded(draw.standard_normal(workload.heads)) if workload.sinks else None


def scales_of(workload: Workload, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the largest entry of each KV head is of the largest whole number of as many bits as entries take."""
    largest = np.float32(2 ** (8 * workload.dtype.bytes // workload.entries_per_word - 1) - 1)
    scales = np.abs(array).max(axis=(0, 2, 3)) / largest
    return np.where(scales > 0, scales, np.float32(1))


def _in_fewer_bits(workload: Workload, inputs: Inputs) -> Inputs:
    """Keys and values rounded to whole numbers of so many bits times the scale of their KV head, if they take fewer."""
    if not workload.has_scales:
        return inputs
    kept = []
    for array in (inputs.k,) if workload.values_in_keys else (inputs.k, inputs.v):
        scales = scales_of(workload, array)[:, None, None]
        kept.append(np.rint(array / scales) * scales)
    return Inputs(inputs.q, kept[0], kept[0][..., : workload.value_dim] if workload.values_in_keys else kept[1])


def random_gradient(workload: Workload, seed: int = 0) -> NDArray[np.float32]:
    """A normal random gradient of the output, rounded to the element type; independent of the inputs of that seed."""
    checked_workload(workload)
    draw = np.random.default_rng((checked_count("seed", seed, least=0, most=_LARGEST_SEED), 1))
    return workload.dtype.rounded(draw.standard_normal(_output_shape(workload), dtype=np.float32))


def _output_shape(workload: Workload) -> tuple[int, int, int, int]:
    return (workload.batch, workload.heads, workload.queries, workload.value_dim)


def given_or_random(workload: Workload, given: Given, seed: int) -> tuple[Inputs, NDArray[np.float32]]:
    """Inputs and the gradient of the output: the caller's q, k, v (sinks) and do, or random ones from the seed."""
    wanted = ("five", "q, k, v, sinks and do", 5) if workload.sinks else ("four", "q, k, v and do", 4)
    if given is None:
        inputs, gradient = random_inputs(workload, seed), random_gradient(workload, seed)
    elif _arrays(given) != wanted[2]:
        raise InvalidInput(f"inputs are {_arrays(given)} arrays; the gradient needs {wanted[0]}: {wanted[1]}")
    else:
        inputs, gradient = checked_inputs(workload, given[:3]), checked_gradient(workload, given[-1])
    check_scale(workload, inputs)
    return inputs, gradient


def sinks_beside(workload: Workload, given: Given, seed: int) -> NDArray[np.float32] | None:
    """The sinks of a run for the gradient, the fourth of its arrays, or random ones; None for a workload without."""
    if given is None or not workload.sinks:
        return random_sinks(workload, seed)
    return checked_array("sinks", given[3], (workload.heads,), workload.dtype)


def _arrays(given: object) -> int:
    """How many arrays were given; what is no list of them is refused."""
    if isinstance(given, str) or not hasattr(given, "__len__") or not hasattr(given, "__getitem__"):
        raise InvalidInput(f"inputs are {show_value(given)}; give arrays: q, k and v, and do for the gradient")
    return len(given)


def check_scale(workload: Workload, inputs: Inputs) -> None:
    """Refuse a scale that takes scores out of range; inputs that do so by themselves saturate instead."""
    most = _LARGEST_SCORE if workload.direction is Direction.FORWARD else _LARGEST_SAVED_SCORE
    products = float(np.abs(inputs.q).max()) * float(np.abs(inputs.k).max()) * workload.d
    if products <= most and products * abs(workload.softmax_scale) > most:
        limit = 10.0 ** floor(log10(most) - log10(products))
        raise InvalidInput(
            f"scale is {workload.softmax_scale:g}, which makes scores overflow; use a size of at most {limit:g}"
        )


def checked_gradient(workload: Workload, given: ArrayLike) -> NDArray[np.float32]:
    """The caller's gradient of the output rounded to the element type, or an error that says how it is wrong."""
    return checked_array("do", given, _output_shape(workload), workload.dtype)


def checked_inputs(workload: Workload, given: Sequence[ArrayLike]) -> Inputs:
    """The caller's q, k and v rounded to the element type, or an error that says which is wrong and how."""
    if _arrays(given) != 3:
        raise InvalidInput(f"inputs are {_arrays(given)} arrays; give three: q, k and v")
    shapes = _shapes(workload)
    rounded = Inputs(
        *(
            checked_array(name, array, shape, workload.dtype)
            for (name, shape), array in zip(shapes.items(), given, strict=True)
        )
    )
    _check_entries(workload, rounded)
    if workload.values_in_keys and (rounded.v != rounded.k[..., : workload.value_dim]).any():
        raise InvalidInput(
            f"v is not the first {workload.value_dim:,} columns of k, as values_in_keys says; give v ="
            f" k[..., :{workload.value_dim}], or set values_in_keys=False"
        )
    if isinstance(workload.mask, SharedPrefix):
        length = workload.mask.length
        for name, array in (("k", rounded.k), ("v", rounded.v)):
            if (array[:, :, :length] != array[:1, :, :length]).any():
                raise InvalidInput(
                    f"{name} differs between requests within the shared prefix; make {name}[:, :, :{length}] the same"
                    f" in all {workload.batch:,} requests, or use a mask without a shared prefix"
                )
    return _in_fewer_bits(workload, rounded)


def checked_forward(workload: Workload, given: Given, seed: int) -> tuple[Inputs, NDArray[np.float32] | None]:
    """Inputs and sinks of a forward run: the caller's q, k, v (and sinks), or random ones from the seed."""
    if given is None:
        inputs, sinks = random_inputs(workload, seed), random_sinks(workload, seed)
    elif not workload.sinks:
        inputs, sinks = checked_inputs(workload, given), None
    elif _arrays(given) != 4:
        raise InvalidInput(f"inputs are {_arrays(given)} arrays; with sinks give four: q, k, v and sinks")
    else:
        inputs = checked_inputs(workload, given[:3])
        sinks = checked_array("sinks", given[3], (workload.heads,), workload.dtype)
    check_scale(workload, inputs)
    return inputs, sinks


def _largest_within(bound: float, dtype: ElementType) -> float:
    """A number that the element type has, at most the bound; no uniform number below it is rounded beyond it."""
    near = float(dtype.rounded(np.array([bound]))[0])
    below = near - bound
    while near > bound:  # the neighbour below is at most twice the spacing away
        near = float(dtype.rounded(np.array([bound - below]))[0])
        below *= 2
    return near


def _check_entries(workload: Workload, inputs: Inputs) -> None:
    """Refuse queries and keys with entries beyond the workload's bound: what is guaranteed rests on it."""
    if workload.entry_bound is None:
        return
    for name, array in (("q", inputs.q), ("k", inputs.k)):
        largest = float(np.abs(array).max())
        if largest > workload.entry_bound:
            raise InvalidInput(
                f"{name} has entries up to {largest:.4g} and the workload says {workload.entry_bound:g}; state a larger"
                " entry_bound, or scale the inputs down"
            )


def checked_array(name: str, given: ArrayLike, shape: tuple[int, ...], dtype: ElementType) -> NDArray[np.float32]:
    """The caller's array rounded to the element type, or an error that says how it is wrong."""
    try:
        array: NDArray[Any] = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is not an array of numbers; give one of shape {shape}") from None
    if array.shape != shape:
        axes = "(batch, heads, rows, width) = " if len(shape) == 4 else ""
        raise InvalidInput(f"{name} has shape {show_shape(array.shape)}; this workload needs {axes}{shape}")
    if np.isnan(array).any():
        raise InvalidInput(f"{name} has {int(np.isnan(array).sum()):,} NaN in it; replace them with numbers")
    if np.isinf(array).any():
        raise InvalidInput(f"{name} has infinite values; to hide scores, use a mask")
    with np.errstate(over="ignore"):
        rounded = dtype.rounded(array)
    if not np.isfinite(rounded).all():
        raise InvalidInput(
            f"{name} has values up to {np.abs(array).max():.4g}, beyond the range of {dtype.value};"
            " scale them down or use a wider element type"
        )
    return rounded
