"""``attenio weight-gradient``: the gradient of attention's weights, as a problem of its own."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson, option, option_field, taking
from attenio.cli.output import plain_table, print_json, print_tables, prose
from attenio.cli.question import DEFAULT_D, Question
from attenio.plain_values import plain_fields
from attenio.quantities import parse_count, show_count, show_figures, show_words

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.bounds import LowerBound
    from attenio.weight_gradient import WeightGradient, WeightPlan

_DEFAULT_N = 8192


@dataclass(frozen=True, kw_only=True)
class WeightQuestion:
    """The options as typed."""

    n: str | None = option_field("Queries and keys, such as 4096 or 8K, the default.", "COUNT")
    queries: str | None = option_field("Queries, where they are not as many as the keys.", "COUNT")
    keys: str | None = option_field("Keys, where they are not as many as the queries.", "COUNT")
    d: str = option_field(f"Width of everything (default {DEFAULT_D}).", "COUNT", default=str(DEFAULT_D))
    mask: str = option_field("dense (default), causal or window:4096.", "MASK", default="dense")
    dtype: str = option_field("fp32, fp16, bf16 or fp8 (default fp16).", "TYPE", default="fp16")
    accumulator: str | None = option_field("Type of what is computed; without it each value takes one word.", "TYPE")
    machine: str | None = option_field("A machine by name, or a YAML file.", "NAME|PATH", panel="Machine")
    fast_bytes: str | None = option_field(
        "In place of --machine: this much fast memory, such as 512KB.", "SIZE", panel="Machine"
    )

    def workload(self) -> "WeightGradient":
        """The gradient asked about."""
        from attenio.weight_gradient import WeightGradient

        named = {name: getattr(self, name) for name in ("n", "queries", "keys")}
        lengths = {name: parse_count(text, name) for name, text in named.items() if text is not None}
        if "n" not in lengths and len(lengths) < 2:
            lengths["n"] = _DEFAULT_N
        return WeightGradient(
            **lengths, d=parse_count(self.d, "d"), mask=self.mask, dtype=self.dtype, accumulator=self.accumulator
        )


@taking(WeightQuestion)
def weight_gradient(
    question: WeightQuestion,
    dataflow: Annotated[
        str | None, option("--dataflow", "Only this one: fused, one-pass, two-pass, ...", "NAME", panel="Plan")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Run the plan on the counted memory too.", rich_help_panel="Plan")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """What the gradient of the weights in front of attention must move, and the plan that moves least.

    O = softmax(A1 X A2ᵀ) A3 Y; given dO, asked for are dX and dY.

    \b
    Examples:
      attenio weight-gradient --n 8K --d 64 --fast-bytes 128KB
      attenio weight-gradient --n 32K --d 128 --mask causal --machine h100 --json
      attenio weight-gradient --n 256 --d 16 --fast-bytes 4KB --run
    """
    from attenio.weight_gradient import (
        bounds_for_weight_gradient,
        execute_weight_gradient,
        plan_weight_gradient,
        weight_candidates,
    )

    workload = question.workload()
    machine = replace(Question(), machine=question.machine, fast_bytes=question.fast_bytes).chosen_machine()
    fast_words = machine.slowest_boundary.fast_words(workload.dtype)
    best = plan_weight_gradient(workload, fast_words, dataflow)
    bounds = bounds_for_weight_gradient(workload, fast_words)
    plans = sorted(weight_candidates(workload, fast_words), key=lambda plan: plan.moved_words)
    ran = execute_weight_gradient(best) if run else None
    largest = max((bound for bound in bounds if bound.strength.value != "asymptotic"), key=lambda bound: bound.words)
    if as_json:
        value = _as_json(best, plans, bounds, best.moved_words / largest.words)
        counted = None if ran is None else {name: getattr(ran, name) for name in ("moved_words", "max_abs_error")}
        print_json({**value, "run": counted})
        return
    what = (
        f"gradient of the weights, {show_count(workload.queries, 'query')}, {show_count(workload.keys, 'key')},"
        f" d={workload.d}"
        f" {workload.mask} {workload.dtype.value}; {show_words(fast_words)} of fast memory"
    )
    gap = best.moved_words / largest.words
    lines = [f"gap {show_figures(gap)}×, the plan over {largest.theorem} ({largest.strength.value})"]
    proven = [bound for bound in bounds if bound.strength.value != "asymptotic"]
    lines += [f"{bound.strength.value.capitalize()}: {bound.covers}." for bound in proven]
    if not machine.granularity_of(workload.dtype).is_free:
        lines.append(f"Tiles are free: these plans do not keep to {machine.name}'s tiles of whole units.")
    if ran is not None:
        lines.append(f"the run moved {show_words(ran.moved_words)}; its largest error is {ran.max_abs_error:.3g}")
    print_tables(prose(what), "", _table(bounds, plans, best), *(prose(line) for line in lines))


def _as_json(
    best: "WeightPlan", plans: "list[WeightPlan]", bounds: "tuple[LowerBound, ...]", gap: float
) -> dict[str, Any]:
    workload = best.workload
    return {
        "workload": {
            **plain_fields(workload, "queries", "keys", "d"),
            "mask": str(workload.mask),
            **plain_fields(workload, "dtype", "accumulator"),
        },
        "fast_words": best.fast_words,
        "plan": _plan(best),
        "candidates": [_plan(plan) for plan in plans],
        "lower_bounds": [plain_fields(bound, "theorem", "words", "strength", "covers") for bound in bounds],
        "gap": gap,
    }


def _plan(plan: "WeightPlan") -> dict[str, Any]:
    return plain_fields(plan, "dataflow", "tiles", "moved_words", "peak_words")


def _table(bounds: "tuple[LowerBound, ...]", plans: "list[WeightPlan]", best: "WeightPlan") -> "Table":
    table = plain_table("what", ("words", "right"), "how")
    for bound in bounds:
        table.add_row("growth only" if bound.strength.value == "asymptotic" else "must move", f"{bound.words:,}",
                      f"{bound.theorem} ({bound.strength.value})")  # fmt: skip
    for plan in (best, *(each for each in plans if each != best)):
        tiles = " ".join(f"{name}={tile:,}" for name, tile in plan.tiles.items())
        table.add_row("plan moves" if plan == best else "", f"{plan.moved_words:,}", f"{plan.dataflow.value} {tiles}")
    return table
