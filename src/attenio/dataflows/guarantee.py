"""What an approximate run promises: its polynomial, and the largest error on the values that it is given."""

import numpy as np

from attenio.approximation import Certificate, Polynomial
from attenio.approximation.rounding import storage_error
from attenio.dataflows.inputs import Inputs
from attenio.planning.approximate.guarantees import certificate_at
from attenio.planning.plan import Plan


def polynomial_of(plan: Plan) -> Polynomial:
    """The polynomial that a plan puts in the place of the exponential."""
    polynomial = _certificate(plan).polynomial
    assert polynomial is not None
    return polynomial


def guaranteed_error(plan: Plan, inputs: Inputs) -> float | None:
    """No output is further from exact attention than this; None for exact plans.

    Truncation moves an output by a share of half the range of its column of values; roundings by a share of their size.
    """
    if not plan.dataflow.is_approximate:
        return None
    certificate = _certificate(plan)
    spread = float((inputs.v.max(axis=2) - inputs.v.min(axis=2)).max()) / 2
    largest = float(np.abs(inputs.v).max())
    if largest == 0:
        return 0.0
    moved = certificate.truncation_error * spread + certificate.rounding_error * largest
    return moved + storage_error(plan.workload.dtype, largest=1 + moved / largest, unit=largest) * largest


def _certificate(plan: Plan) -> Certificate:
    return certificate_at(plan.workload, plan.tiles) if plan.certificate is None else plan.certificate
