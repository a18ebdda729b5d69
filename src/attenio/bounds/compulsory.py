"""Compulsory traffic: what is needed is read once, what is asked for is written once."""

from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.workload import Workload

__all__ = ["compulsory"]


def compulsory(workload: Workload) -> LowerBound:
    """Every input that some score needs is loaded once and every output is stored once.

    Theorem: at least ``workload.compulsory_words`` move, 4nd for one dense head. Keys of a shared KV head or prefix
    count once.
    Assumes: inputs start and outputs end in slow memory; every required score is computed from its entries, also where
    a row has a single key and softmax is 1 anyway.
    Regime: any fast memory; attained once everything fits.
    Proof: docs/theory/compulsory.md

    >>> compulsory(Workload(n=1024, d=64)).words
    262144
    """
    return LowerBound(
        theorem="compulsory",
        words=workload.compulsory_words,
        strength=Strength.ABSOLUTE,
        regime="any fast memory; attained once all inputs and outputs fit",
        citation="folklore; docs/theory/compulsory.md",
        assumptions=(
            "inputs start and outputs end in slow memory, and Q, K and V are separate arrays",
            "every required score is computed from its entries,"
            " also where a row has a single key and softmax is 1 anyway",
        ),
        page="docs/theory/compulsory.md",
    )
