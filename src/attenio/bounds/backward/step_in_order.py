"""A step in order: the gradient of the output comes after the output, so that the two passes are paid one by one."""

from typing import Any

from attenio.bounds.lower_bound import OWN_ROW_SUMS, OWN_SUMS, LowerBound, Strength, between_units

# A whole number, or an array of them.
Words = Any


def words_in_order(forward: Words, backward: Words, fast_words: Words, units: Words = 1) -> Words:
    """The words of both passes, less what fast memory may keep from one to the other."""
    rest = backward - units * fast_words
    return forward + rest * (rest > 0)


def step_in_order(forward: LowerBound, backward: LowerBound, fast_words: int, *, units: int = 1) -> LowerBound:
    """The floor under every training step that reads dO after it has written O, from bounds of its passes.

    Theorem: words >= what a bound says of the forward pass + what compulsory traffic, an epoch argument, single stays,
    short periods or tiles at edges say of the backward pass, whatever was saved, - M.
    Assumes: as the two bounds; no entry of dO exists before all of O is in slow memory, as a loss of O has it.
    Regime: any fast memory; adds to the other bounds of a step where inputs and outputs count beside the products.
    Proof: docs/theory/backward_training.md

    >>> from attenio.bounds import bounds_for
    >>> from attenio.workload import Workload
    >>> step = Workload(n=4096, d=64, mask="window:64", direction="training")
    >>> next(b.words for b in bounds_for(step, 16384) if b.theorem == "step-in-order") / (4096 * 64)
    10.9375
    """
    return LowerBound(
        theorem="step-in-order",
        words=words_in_order(forward.words, backward.words, fast_words, units),
        strength=Strength.ORDINARY,
        covers=forward.covers if forward.covers == OWN_ROW_SUMS else OWN_SUMS,
        regime=f"{forward.theorem} forward + {backward.theorem} backward, whatever was saved, - M",
        assumptions=(
            *dict.fromkeys((*forward.assumptions, *backward.assumptions)),
            "dO comes after the whole of O, of which the loss is made",
            *(each for each in between_units(units) if each not in (*forward.assumptions, *backward.assumptions)),
        ),
        page="docs/theory/backward_training.md",
    )
