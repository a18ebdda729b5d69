"""The growth of traffic in the numbers of nonzeros, for sparse attention in either direction."""

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, root, smaller
from attenio.bounds.lower_bound import GROWTH, LowerBound, Strength
from attenio.workload import Direction, Workload


def input_words(workload: Workload) -> int:
    """Entries of the inputs that some required score needs."""
    rows = workload.heads * workload.batch * workload.queries
    keys = workload.kv_heads * workload.batch * workload.keys
    output = 0 if workload.direction is Direction.BACKWARD else rows * workload.value_dim
    forward = workload.direction is Direction.FORWARD
    gradients = 0 if forward else rows * workload.d + keys * (workload.d + workload.value_dim)
    return workload.compulsory_words - output - gradients


def nonzero_words(inputs: Floats, scores: Floats, fast_words: Floats) -> Floats:
    """The growth, without a constant, for floats or arrays of floats."""
    return whole_words(smaller(inputs * inputs / fast_words, inputs * root(scores / fast_words)))


def nonzeros(workload: Workload, fast_words: int) -> LowerBound:
    """Growth of the traffic of sparse attention, forward or backward.

    Theorem: Ω(min(Zin²/M, Zin sqrt(Zqk)/sqrt(M))) with Zin nonzeros of the inputs and Zqk of the score matrix.
    Assumes: ordinary matrix products. No constant is claimed, and the statement is reported from memory of the paper.
    Regime: for dense inputs the growth of the dense theorems, min(n²d²/M, n²d/sqrt(M)).
    Proof: cited; docs/theory/sparse.md

    >>> nonzeros(Workload(n=1024, d=64, mask="window:64"), 4096).strength
    <Strength.ASYMPTOTIC: 'asymptotic'>
    """
    inputs, scores = input_words(workload), workload.scores
    large = inputs * inputs <= scores * fast_words
    return LowerBound(
        theorem="nonzeros",
        words=int(nonzero_words(float(inputs), float(scores), float(fast_words))),
        strength=Strength.ASYMPTOTIC,
        covers=GROWTH,
        regime=(
            "fast memory of at least Zin²/Zqk: grows as Zin²/M"
            if large
            else "fast memory below Zin²/Zqk: grows as Zin √Zqk/√M"
        ),
        citation="after Li et al. 2024, arXiv:2410.09397, in the form of Pagh & Stöckel 2014; statement unconfirmed",
        assumptions=("ordinary matrix products", "growth only: the constant is not stated"),
        page="docs/theory/sparse.md",
    )
