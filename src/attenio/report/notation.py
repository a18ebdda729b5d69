"""How numbers and candidates are written, the same in terminals, tables and figures."""

import math
from collections.abc import Iterator

from attenio.bounds import LowerBound
from attenio.planning import Candidate, NestedPlan, TrainingCandidate
from attenio.planning.plan import TileRule
from attenio.quantities import show_words
from attenio.report.answer import Answer, BoundaryAnswer, Floor, TimeFloor
from attenio.report.training import TrainingAnswer

UNCOUNTED = "Arithmetic of plans that approximate is not counted, so nothing is said to bind."


def told_bounds(answer: Answer | Floor | TrainingAnswer) -> tuple[LowerBound, ...]:
    """The bound that gaps are given against, and the largest absolute one where that is less."""
    bound, absolute = answer.bound, answer.absolute_bound
    return (bound,) if absolute.words == bound.words else (bound, absolute)


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


def by_words(answer: Answer) -> list[Candidate]:
    """Candidates with the fewest words first, the plan itself before its equals, and what does not fit last."""

    def key(candidate: Candidate) -> tuple[float, bool]:
        plan = candidate.plan
        return (math.inf if plan is None else plan.moved_words, plan != answer.plan)

    return sorted(answer.candidates, key=key)


def candidate_rows(answer: Answer) -> Iterator[tuple[Candidate, str]]:
    """Candidates as tables list them, each with the name of its rule: what says the same twice is one row."""
    best = {candidate.dataflow: candidate for candidate in answer.candidates if candidate.rule is TileRule.BEST}
    published = {c.dataflow: c for c in answer.candidates if c.rule is TileRule.PUBLISHED}
    for candidate in by_words(answer):
        one, other = best.get(candidate.dataflow), published.get(candidate.dataflow)
        if one is None or other is None:
            yield candidate, candidate.rule.value
        elif one.plan is None and other.plan is None:  # published tiles, which keep to no granularity, may fit alone
            if candidate is one:
                yield candidate, "any"
        elif one.plan is None or other.plan is None or one.tiles != other.tiles:
            yield candidate, candidate.rule.value
        elif candidate is one:
            yield candidate, "best = published"


def price_of_units(answer: Answer | TrainingAnswer) -> tuple[str, ...]:
    """Lines about what tiles of whole units cost, where the machine asks for them."""
    if answer.granularity_price is None:
        return ()
    inner = answer.boundaries[:-1] if isinstance(answer, Answer) else ()
    prices = [(part.granularity_price, f" at {part.boundary.name}") for part in inner]
    shown = [f"{100 * price:.3g} %{where}" for price, where in prices if price is not None]
    units = answer.machine.granularity_of(answer.workload.dtype)
    more = f"{100 * answer.granularity_price:.3g} % more words than with free tiles"
    return (f"With {units}, {'; '.join([more, *shown])}.",)


def resource_rows(answer: Answer) -> Iterator[tuple[str, TimeFloor | None]]:
    """Every resource with its seconds; None where its rate is unknown, or where nothing fits that boundary."""
    times = {time.resource: time for time in answer.times}
    for name in (*(part.boundary.name for part in answer.boundaries), "arithmetic", "exponentials"):
        yield name, times.get(name)


def nested_rows(answer: Answer, nested: NestedPlan) -> Iterator[tuple[BoundaryAnswer, int, int, int]]:
    """Each boundary with the query tile, the key tile and the words of the nested plan; no tile exceeds its operand."""
    patterns = [pattern for pattern, _ in answer.workload.stacked_patterns]
    most_queries, most_keys = max(each.rows for each in patterns), max(each.keys for each in patterns)
    for part, tiles, moved in zip(answer.boundaries, nested.tiles, nested.moved_words, strict=True):
        yield part, min(tiles.query_tile, most_queries), min(tiles.key_tile, most_keys), moved


def alone_title(answer: Answer) -> str:
    """What the table of plans for single boundaries holds."""
    named = "" if answer.dataflow is None else f"{answer.dataflow.value} "
    return f"The best {named}plan for each boundary alone"


def nested_beats_alone(answer: Answer) -> str:
    """A word to readers who find a nested plan below the best plan for one boundary; empty where there is none."""
    pairs = [(part.nested_words, part.plan.moved_words) for part in answer.boundaries if part.plan is not None]
    if answer.dataflow is not None or not any(nested is not None and nested < alone for nested, alone in pairs):
        return ""
    return "A nested plan can move less than these: it cuts its tiles anew within every outer tile."


def short_reason(absent: Candidate | TrainingCandidate | BoundaryAnswer) -> str:
    """Why something does not fit, without what to do about it: a table has many such rows."""
    if absent.needed_words is None:
        return (absent.reason or "").split(";")[0]
    given_tiles = isinstance(absent, Candidate) and absent.tiles is not None
    return f"does not fit: needs {'' if given_tiles else 'at least '}{show_words(absent.needed_words)}"


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
