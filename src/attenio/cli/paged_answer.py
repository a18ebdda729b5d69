"""What is answered about requests on pages, by whichever command: bounds, the plan, its run, as tables or JSON."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attenio.cli.output import plain_table, print_json, print_tables, prose, told_if_long
from attenio.plain_values import plain_fields
from attenio.quantities import show_digits, show_figures, show_words

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.bounds import LowerBound
    from attenio.machine import Machine
    from attenio.paging import PagedRun, PagedWorkload, PagingPlan

# Branches of a tree that the terminal shows.
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class PagedAnswer:
    """Bounds of requests on a machine, their plan if one is asked for, and its run."""

    workload: "PagedWorkload"
    fast_words: int
    bounds: "tuple[LowerBound, ...]"
    plan: "PagingPlan | None" = None
    run: "PagedRun | None" = None

    @classmethod
    def of(
        cls, workload: "PagedWorkload", machine: "Machine", *, planned: bool = True, seed: int | None = None
    ) -> "PagedAnswer":
        """The answer for the machine's slowest boundary; with a ``seed`` the plan is run on the counted memory."""
        from attenio.paging import bounds_for_pages, execute_pages, plan_pages

        fast_words = machine.slowest_boundary.fast_words(workload.dtype)
        with told_if_long(f"working on {workload}; Ctrl-C stops it"):
            bounds = bounds_for_pages(workload, fast_words)
            plan = plan_pages(workload, fast_words) if planned else None
            run = None if plan is None or seed is None else execute_pages(plan, seed=seed)
        return cls(workload=workload, fast_words=fast_words, bounds=bounds, plan=plan, run=run)

    @property
    def bound(self) -> "LowerBound":
        """The largest bound."""
        return max(self.bounds, key=lambda bound: bound.words)

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        if as_json:
            print_json(self.to_json())
            return
        lines, plan = [], self.plan
        if plan is not None:
            branches = str(plan.tree).splitlines()
            if len(branches) > _SHOWN:
                branches = [*branches[:_SHOWN], f"and {len(branches) - _SHOWN:,} lines more"]
            gap = plan.moved_words / self.bound.words
            lines = [
                *branches,
                f"gap {show_figures(gap)}×, the plan over {self.bound.theorem} ({self.bound.strength.value})",
            ]
        if self.run is not None:
            lines.append(
                f"the run moved {show_words(self.run.moved_words)}; its largest error is {self.run.max_abs_error:.3g}"
            )
        head = prose(f"{self.workload}; {show_words(self.fast_words)} of fast memory")
        print_tables(head, "", self._table(), *map(prose, lines))

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        workload, plan, run = self.workload, self.plan, self.run
        pages, keys = workload.distinct
        named = plain_fields(
            workload, "lengths", "new", "page_size", "d", "value_dim", "heads", "kv_heads", "dtype", "kv_bits",
            "accumulator", "sinks", "softcap", "values_in_keys",
        )  # fmt: skip
        value: dict[str, Any] = {
            "workload": {**named, "distinct_pages": pages, "distinct_keys": keys},
            "fast_words": self.fast_words,
            "lower_bounds": [
                plain_fields(bound, "theorem", "words", "strength", "covers", "assumptions", "page")
                for bound in self.bounds
            ],
        }
        if plan is None:
            return value
        counted = None if run is None else plain_fields(run, "moved_words", "peak_words", "max_abs_error")
        return {
            **value,
            "plan": {
                "tiles": plan.tiles._asdict(),
                "tree": [
                    {"requests": list(each.requests), "first": each.first, "stop": each.stop, "depth": each.depth}
                    for each in plan.tree.runs
                ],
                **plain_fields(plan, "moved_words", "peak_words", "apart_words"),
            },
            "gap": plan.moved_words / self.bound.words,
            **(counted or {}),
            "run": counted,
        }

    def _table(self) -> "Table":
        table, plan = plain_table("what", ("words", "right"), "how"), self.plan
        for bound in self.bounds:
            table.add_row("must move", f"{bound.words:,}", f"{bound.theorem} ({bound.strength.value})")
        if plan is not None:
            how = "shared pages once" if plan.shares else "every request by itself"
            tiles = " ".join(f"{name}={size:,}" for name, size in plan.tiles._asdict().items())
            table.add_row("plan moves", f"{plan.moved_words:,}", f"{how}, {tiles}")
            table.add_row(
                "apart", f"{plan.apart_words:,}", f"{show_digits(plan.apart_words / plan.moved_words)}× the plan"
            )
        return table
