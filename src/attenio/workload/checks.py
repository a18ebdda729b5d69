"""What a workload refuses, each in one line that says what, how much, and what to do."""

from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from attenio.errors import InvalidInput
from attenio.names import show_value
from attenio.quantities import as_count, checked_count
from attenio.workload.direction import Direction

if TYPE_CHECKING:
    from attenio.workload.workload import Workload

_LARGEST_REACH = 1e300
_EXAMPLES = {
    "tolerance": "0.01, or leave it out for exact attention",
    "entry_bound": "0.5: no entry of queries and keys is larger",
    "softcap": "50, or leave it out for scores as they are",
}


def checked_lengths(n: int | str | None, queries: int | str | None, keys: int | str | None) -> dict[str, int]:
    """Both lengths, ``n`` standing for one that is not given; an ``n`` that the two given ones contradict is refused.

    >>> checked_lengths(8, 1, None)
    {'queries': 1, 'keys': 8}
    """
    both = None if n is None else checked_count("n", as_count("n", n))
    lengths = {}
    for name, given in (("queries", queries), ("keys", keys)):
        value = both if given is None else as_count(name, given)
        if value is None:
            raise InvalidInput(f"{name} is not given; set n for both lengths, or queries and keys")
        lengths[name] = checked_count(name, value)
    if both is not None and queries is not None and keys is not None and set(lengths.values()) != {both}:
        raise InvalidInput(
            f"n is {both:,} but queries is {lengths['queries']:,} and keys is {lengths['keys']:,}; leave n out and give"
            f" queries and keys, queries={both}, keys={both} for both"
        )
    return lengths


def checked_positive(name: str, value: float) -> float:
    """A finite number above 0."""
    known = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not known or not (0 < value < float("inf")):
        raise InvalidInput(f"{name} is {show_value(value)}; give a finite number above 0, such as {_EXAMPLES[name]}")
    return float(value)


def check_latent(workload: "Workload") -> None:
    """Values that are part of keys are no wider than these, forward and exact."""
    if not isinstance(workload.values_in_keys, bool):
        raise InvalidInput(f"values_in_keys is {show_value(workload.values_in_keys)}; give True or False")
    if not workload.values_in_keys:
        return
    if workload.value_dim > workload.d:
        raise InvalidInput(
            f"values in keys are {workload.value_dim:,} wide and keys {workload.d:,}; use a value_dim up to"
            f" {workload.d:,}, or values_in_keys=False"
        )
    if workload.direction is not Direction.FORWARD:
        raise InvalidInput(
            f"values in keys are planned forward only, and this is {workload.direction.value}; set values_in_keys=False"
            " to ask about separate keys and values, or leave --decode out"
        )
    if workload.tolerance is not None:
        raise InvalidInput(
            "values in keys are planned for exact attention only; leave the tolerance out, or set values_in_keys=False"
        )


def check_reach(workload: "Workload") -> None:
    """Refuse entries so large that scores might leave the range of numbers."""
    bound, factor = workload.entry_bound, workload.d * abs(float(workload.softmax_scale))
    if bound is not None and not bound * bound * factor < _LARGEST_REACH:
        most = 10.0 ** floor((log10(_LARGEST_REACH) - log10(factor)) / 2 - 1e-9)
        raise InvalidInput(
            f"entry_bound is {bound:g} (--entry-bound), with which scores may overflow; give at most {most:g}"
        )


def check_forms(workload: "Workload") -> None:
    """Sinks, a cap and keys in fewer bits are planned for exact attention, keys in fewer bits forward."""
    if not isinstance(workload.sinks, bool):
        raise InvalidInput(f"sinks is {show_value(workload.sinks)}; give True or False")
    asked = _asked_form(workload)
    if asked is None:
        return
    if workload.has_scales and workload.direction is not Direction.FORWARD:
        raise InvalidInput(
            f"kv_bits is {workload.kv_bits}, below a word, and this is {workload.direction.value}: what was rounded has"
            " no gradient, so it is planned forward only; leave kv_bits out, or ask about the forward pass"
        )
    if workload.tolerance is not None:
        raise InvalidInput(f"{asked}: planned for exact attention only; leave it out, or the tolerance")


def refuse_forms(workload: "Workload", what: str) -> None:
    """Refuse sinks, a cap and keys in fewer bits where somebody does not know them."""
    asked = _asked_form(workload)
    if asked is not None:
        raise InvalidInput(f"{what} {asked}; leave it out (workload.plain does), or ask for a plan on one device")


def _asked_form(workload: "Workload") -> str | None:
    forms = {
        "sinks": workload.sinks, "a softcap": workload.softcap is not None, "kv_bits below a word": workload.has_scales
    }  # fmt: skip
    return next((name for name, given in forms.items() if given), None)
