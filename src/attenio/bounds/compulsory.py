"""Compulsory traffic: inputs that are needed are read once, outputs are written once."""

from attenio.bounds.lower_bound import ANY_ALGORITHM, LowerBound, Strength
from attenio.workload import Direction, Workload


def compulsory(workload: Workload) -> LowerBound:
    """Every input that some score needs is loaded once and every output is stored once.

    Theorem: at least ``workload.compulsory_words`` move: for one dense head 4nd forward, 7nd backward, 8nd for a
    training step. Keys of a shared KV head or prefix count once, and so do values that are part of keys. Entries that
    share a word count as one, scales of KV heads and sinks of query heads as what they are.
    Assumes: inputs start and outputs end in slow memory; every required score is computed from its entries, also where
    a row has a single key and softmax is 1 anyway.
    Regime: any fast memory; attained once everything fits.
    Proof: docs/theory/compulsory.md, docs/theory/backward_compulsory.md

    >>> compulsory(Workload(n=1024, d=64)).words
    262144
    """
    forward = workload.direction is Direction.FORWARD
    arrays = "Q, K and V are" if forward else "Q, K, V and dO are"
    if workload.values_in_keys:
        arrays = f"values are the first {workload.value_dim} columns of keys; Q and K are"
    page = "docs/theory/compulsory.md" if forward else "docs/theory/backward_compulsory.md"
    return LowerBound(
        theorem="compulsory",
        words=workload.compulsory_words,
        strength=Strength.ABSOLUTE,
        covers=ANY_ALGORITHM,
        regime="any fast memory; attained once all inputs and outputs fit",
        citation=f"folklore; {page}",
        assumptions=(
            f"inputs start and outputs end in slow memory, and {arrays} separate arrays",
            "every required score is computed from its entries,"
            " also where a row has a single key and softmax is 1 anyway",
        ),
        page=page,
    )
