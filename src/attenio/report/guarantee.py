"""The promise of a plan that approximates, in words."""

from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import show_count


def guarantee(plan: Plan) -> str:
    """What an approximate plan promises, in words; empty for an exact one."""
    certificate = plan.certificate
    if certificate is None or certificate.polynomial is None:
        return ""
    what = "at most, of half the range of a column of V"
    if plan.dataflow is Dataflow.FEATURE_GRADIENT:
        what = "of the outputs whose gradient this is, of half the range of a column of V"
    kind, features = certificate.polynomial.kind.value, certificate.features or 0
    return f"{what}: {kind} polynomial of degree {certificate.degree}, {show_count(features, 'feature')}"
