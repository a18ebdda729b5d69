"""How long a counted run will take, told in a line before it begins."""

from typing import TYPE_CHECKING

from attenio.cli.output import print_aside
from attenio.quantities import show_minutes, show_words

if TYPE_CHECKING:
    from attenio.planning.plan import Plan

# About what a run reaches; a larger memory moves more words in a step, by measurement from 3 to 32K words.
_FLOPS_PER_S = 1e10
_WORDS_PER_S = 25e3
_GROWTH = 0.4
# Runs that take longer are announced.
_LONG_SECONDS = 30


def warn_of_long_run(*plans: "Plan") -> None:
    """Say in a line how long a run will take, if that is long."""
    from attenio.dataflows.host import check_host_memory

    seconds = sum(map(_estimated_seconds, plans))
    if seconds < _LONG_SECONDS:
        return
    for plan in plans:
        check_host_memory(plan)  # what is refused anyway needs no warning
    words, flops = sum(plan.moved_words for plan in plans), sum(plan.workload.flops for plan in plans)
    print_aside(
        f"running {plans[0].workload}: {show_words(words)} and {flops:,} operations, about {show_minutes(seconds)};"
        " Ctrl-C stops it, nothing is kept; a smaller --n is faster, and so is a larger fast memory; attenio plan says"
        " the words at once"
    )


def _estimated_seconds(plan: "Plan") -> float:
    words_per_s = _WORDS_PER_S * float(plan.fast_words) ** _GROWTH
    return float(max(plan.moved_words / words_per_s, plan.workload.flops / _FLOPS_PER_S))
