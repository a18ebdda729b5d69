"""How numbers and candidates are written, the same in terminals, tables and figures."""

import math

from attenio.planning import Candidate
from attenio.report.answer import Answer

__all__ = ["by_words", "short_count", "show_rate", "show_ratio"]


def by_words(answer: Answer) -> list[Candidate]:
    """Candidates with the fewest words first, the plan itself before its equals, and what does not fit last."""

    def key(candidate: Candidate) -> tuple[float, bool]:
        plan = candidate.plan
        return (math.inf if plan is None else plan.moved_words, plan != answer.plan)

    return sorted(answer.candidates, key=key)


def show_ratio(ratio: float) -> str:
    """How many times as much.

    >>> show_ratio(1.0625), show_ratio(2048.000061), show_ratio(1.0)
    ('1.0625×', '2,048×', '1×')
    """
    if ratio == 1:  # exactly: a plan that is proven optimal should not look like one that is nearly so
        return "1×"
    return f"{ratio:.4f}×" if ratio < 10 else f"{ratio:,.1f}×" if ratio < 1000 else f"{ratio:,.0f}×"


def show_rate(rate_per_s: float, unit: str) -> str:
    """A rate with a decimal prefix.

    >>> show_rate(4.096e12, "FLOP")
    '4.096 TFLOP/s'
    """
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate_per_s >= factor:
            return f"{rate_per_s / factor:.4g} {prefix}{unit}/s"
    return f"{rate_per_s:.4g} {unit}/s"


def short_count(count: float) -> str:
    """A count in binary multiples, as memory sizes and sequence lengths are spoken of.

    >>> short_count(131072), short_count(96)
    ('128K', '96')
    """
    for factor, unit in ((2**40, "T"), (2**30, "G"), (2**20, "M"), (2**10, "K")):
        if count >= factor:
            return f"{count / factor:.4g}{unit}"
    return f"{count:.4g}"
