"""``attenio pages``: requests whose keys lie in pages, shared or not, in as many bits as they take."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.completion import element_names, machine_names, model_names
from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import plain_table, print_json, print_tables, prose
from attenio.cli.question import DEFAULT_D, Question
from attenio.errors import InvalidInput
from attenio.plain_values import plain_fields
from attenio.quantities import parse_count, show_words

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.bounds import LowerBound
    from attenio.paging import PagedRun, PagedWorkload, PagingPlan

_DEFAULT_LENGTHS, _DEFAULT_PAGE = "64x8K", "64"
# Branches of a tree that the terminal shows.
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class PagedQuestion:
    """The options as typed."""

    lengths: str | None = option_field(
        f"Keys of each request, such as 8K,4K or 64x8K, 64 of them (default {_DEFAULT_LENGTHS}).", "COUNTS"
    )
    levels: str | None = option_field(
        "In place of --lengths: keys that requests share, as 4K:64,1K:8: 64 share 4K, groups of 8 of them 1K more.",
        "TREE",
    )
    own: str | None = option_field("Keys that each request of --levels has to itself (default 64).", "COUNT")
    table: str | None = option_field("A JSON file with the pages of each request of --lengths.", "PATH")
    new: str | None = option_field("New tokens of each request, the last of its keys (default 1).", "COUNTS")
    page_size: str = option_field(f"Keys of a page (default {_DEFAULT_PAGE}).", "COUNT", default=_DEFAULT_PAGE)
    d: str | None = option_field(f"Width of queries and keys (default {DEFAULT_D}).", "COUNT")
    value_dim: str | None = option_field("Width of values (default: as --d).", "COUNT")
    heads: str | None = option_field("Query heads (default 1).", "COUNT")
    kv_heads: str | None = option_field("KV heads (default: as --heads).", "COUNT")
    values_in_keys: bool = option_field("Values are the first columns of keys, one latent.", default=False)
    kv_bits: str | None = option_field("Bits of an entry of keys and values (default: those of --dtype).", "COUNT")
    sinks: bool = option_field("A sink for each head.", default=False)
    softcap: str | None = option_field("A cap on scores; it moves nothing.", "NUMBER")
    dtype: str | None = option_field("fp32, fp16, bf16 or fp8 (default fp16).", "TYPE", completion=element_names)
    accumulator: str | None = option_field("Type of sums and scores; without it each takes one word.", "TYPE")
    model: str | None = option_field("Heads and widths of a model's decode, by name.", "NAME", completion=model_names)
    machine: str | None = option_field(
        "A machine by name, or a YAML file.", "NAME|PATH", panel="Machine", completion=machine_names
    )
    fast_bytes: str | None = option_field(
        "In place of --machine: this much fast memory, such as 512KB.", "SIZE", panel="Machine"
    )

    def workload(self) -> "PagedWorkload":
        """The requests asked about."""
        from attenio.paging import PagedWorkload

        rest = {**self._shape(), "page_size": parse_count(self.page_size, "page-size")}
        if self.new is not None:
            rest["new"] = _counts(self.new, "new")
        if self.levels is None:
            if self.own is not None:
                raise InvalidInput(f"--own {self.own} is for --levels; leave it out, or give --levels")
            lengths = _counts(self.lengths or _DEFAULT_LENGTHS, "lengths")
            return PagedWorkload(lengths=lengths, table=_table_from(self.table), **rest)
        if self.lengths is not None or self.table is not None:
            raise InvalidInput("--levels makes lengths and a table; leave --lengths and --table out, or --levels")
        own = 64 if self.own is None else parse_count(self.own, "own")
        return PagedWorkload.of_levels(_levels(self.levels), own=own, **rest)

    def _shape(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"d": DEFAULT_D}
        if self.model is not None:
            from attenio.catalogue import model_named

            model = model_named(self.model)
            shape = plain_fields(model.decode, "d", "value_dim", "heads", "kv_heads", "values_in_keys")
            shape |= {"dtype": model.dtype, "scale": model.scale}
        for name in ("d", "value_dim", "heads", "kv_heads", "kv_bits"):
            if getattr(self, name) is not None:
                shape[name] = parse_count(getattr(self, name), name)
        for name in ("values_in_keys", "sinks", "dtype", "accumulator"):
            if getattr(self, name):
                shape[name] = getattr(self, name)
        try:
            shape["softcap"] = None if self.softcap is None else float(self.softcap)
        except ValueError:
            raise InvalidInput(f"softcap is {self.softcap!r}; give a number such as 50") from None
        return shape


@taking(PagedQuestion)
def pages(
    question: PagedQuestion,
    run: Annotated[
        bool, typer.Option("--run", help="Run the plan on the counted memory too.", rich_help_panel="Plan")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """What attention on pages must move, and the plan that reads shared pages once where that moves less.

    \b
    Examples:
      attenio pages --levels 32K:64 --own 256 --heads 64 --kv-heads 8 --d 128 --machine h200
      attenio pages --lengths 64x8K --kv-bits 8 --model llama-3-70b --machine h200
      attenio pages --levels 4K:64,1K:8 --page-size 16 --model deepseek-v3 --json
      attenio pages --lengths 300,70,41 --page-size 16 --d 16 --heads 4 --kv-heads 1 --sinks --fast-bytes 4KB --run
    """
    from attenio.paging import bounds_for_pages, execute_pages, plan_pages

    workload = question.workload()
    machine = replace(Question(), machine=question.machine, fast_bytes=question.fast_bytes).chosen_machine()
    fast_words = machine.slowest_boundary.fast_words(workload.dtype)
    plan, bounds = plan_pages(workload, fast_words), bounds_for_pages(workload, fast_words)
    ran = execute_pages(plan) if run else None
    largest = max(bounds, key=lambda bound: bound.words)
    if as_json:
        print_json(_as_json(plan, bounds, ran))
        return
    branches = str(plan.tree).splitlines()
    if len(branches) > _SHOWN:
        branches = [*branches[:_SHOWN], f"and {len(branches) - _SHOWN:,} lines more"]
    lines = [f"gap {plan.moved_words / largest.words:.4g}×, the plan over {largest.theorem} ({largest.strength.value})"]
    if ran is not None:
        lines.append(f"the run moved {ran.moved_words:,} words; its largest error is {ran.max_abs_error:.3g}")
    print_tables(
        prose(f"{workload}; {show_words(fast_words)} of fast memory"), "", _table(plan, bounds), *map(prose, branches),
        *map(prose, lines),
    )  # fmt: skip


def _as_json(plan: "PagingPlan", bounds: "tuple[LowerBound, ...]", ran: "PagedRun | None") -> dict[str, Any]:
    workload, largest = plan.workload, max(bound.words for bound in bounds)
    pages, keys = workload.distinct
    named = plain_fields(
        workload, "lengths", "new", "page_size", "d", "value_dim", "heads", "kv_heads", "dtype", "kv_bits",
        "accumulator", "sinks", "softcap", "values_in_keys",
    )  # fmt: skip
    return {
        "workload": {**named, "distinct_pages": pages, "distinct_keys": keys},
        "fast_words": plan.fast_words,
        "plan": {
            "tiles": plan.tiles._asdict(),
            "tree": [
                {"requests": list(run.requests), "first": run.first, "stop": run.stop, "depth": run.depth}
                for run in plan.tree.runs
            ],
            **plain_fields(plan, "moved_words", "peak_words", "apart_words"),
        },
        "lower_bounds": [plain_fields(bound, "theorem", "words", "strength", "covers") for bound in bounds],
        "gap": plan.moved_words / largest,
        "run": None if ran is None else plain_fields(ran, "moved_words", "peak_words", "max_abs_error"),
    }


def _table(plan: "PagingPlan", bounds: "tuple[LowerBound, ...]") -> "Table":
    table = plain_table("what", ("words", "right"), "how")
    for bound in bounds:
        table.add_row("must move", f"{bound.words:,}", f"{bound.theorem} ({bound.strength.value})")
    how = "shared pages once" if plan.shares else "every request by itself"
    tiles = " ".join(f"{name}={size:,}" for name, size in plan.tiles._asdict().items())
    table.add_row("plan moves", f"{plan.moved_words:,}", f"{how}, {tiles}")
    table.add_row("apart", f"{plan.apart_words:,}", f"{plan.apart_words / plan.moved_words:.3g}× the plan")
    return table


def _counts(text: str, name: str) -> tuple[int, ...]:
    """Numbers between commas; 64x8K is 8K, 64 times."""
    counts: list[int] = []
    for each in text.split(","):
        times, cross, size = each.partition("x")
        if not times or (cross and not size):
            raise InvalidInput(f"{name} is {text!r}; give numbers between commas, such as 300,70 or 64x8K")
        counts += [parse_count(size, name)] * parse_count(times, name) if cross else [parse_count(each, name)]
    return tuple(counts)


def _levels(text: str) -> tuple[tuple[int, int], ...]:
    levels = []
    for each in text.split(","):
        keys, colon, requests = each.partition(":")
        if not colon:
            raise InvalidInput(f"levels is {text!r}; give keys and how many requests share them, such as 4K:64,1K:8")
        levels.append((parse_count(keys, "levels"), parse_count(requests, "levels")))
    return tuple(levels)


def _table_from(path: str | None) -> tuple[tuple[int, ...], ...]:
    """The table in a JSON file: a list of pages for each request."""
    if path is None:
        return ()
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return tuple(tuple(int(page) for page in row) for row in rows)
    except OSError as error:
        raise InvalidInput(f"cannot read the table {path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise InvalidInput(
            f"the table {path} is not a list of lists of page numbers, such as [[0, 1], [0, 2]]"
        ) from None
