"""``attenio run``: a plan executed on a memory that counts every word."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.cache import Cache
from attenio.cli.long_runs import warn_of_long_run
from attenio.cli.options import AsJson, taking
from attenio.cli.output import check_place, finite, plain_table, print_json, print_tables, progress_bar
from attenio.cli.paged_answer import PagedAnswer
from attenio.cli.question import DataflowName, Question, dataflow_named, refuse_dataflow_of_step
from attenio.errors import InvalidInput
from attenio.quantities import parse_count, parse_seed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attenio.dataflows import NestedRun, Run
    from attenio.planning.plan import Tiles
    from attenio.report import Answer
    from attenio.workload import Workload

# A run does all the arithmetic in NumPy, tile by tile: this many positions take seconds.
EXECUTED_N = 1024


@taking(Question, Cache)
def run(
    question: Question,
    cache: Cache,
    dataflow: DataflowName = None,
    tiles: Annotated[
        str | None,
        typer.Option(
            "--tiles",
            help="Tiles of your own, with --dataflow: query_tile=64,key_tile=1; list names them.",
            metavar="TILES",
        ),
    ] = None,
    seed: Annotated[str, typer.Option("--seed", help="Seed of the random inputs.", metavar="COUNT")] = "0",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="Write every load, store and step to this file, as JSON lines.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Execute a plan on real numbers, in a fast memory that refuses to overflow and counts every word.

    Without a length, sequences have 1,024 positions. On a machine of more than two levels, and unless a dataflow is
    named, the plan nested over all of them is executed too.

    \b
    Examples:
      attenio run --n 1024 --d 64 --fast-bytes 64KB
      attenio run --n 1000 --mask causal --dataflow flash-attention-2 --json
      attenio run --n 512 --dataflow attenio --tiles query_tile=100,key_tile=1
      attenio run --n 64 --d 8 --machine toy-1k-words --trace trace.jsonl
      attenio run --n 256 --d 32 --fast-bytes 16KB --direction training
      attenio run --n 4K --d 16 --fast-bytes 16KB --tolerance 0.05 --entry-bound 0.5
      attenio run --n 512 --d 64 --kv-bits 8 --sinks --fast-bytes 32KB
      attenio run --requests 8x300 --shared-prefix 256 --page-size 16 --kv-bits 8 --d 32 --fast-bytes 16KB
    """
    from attenio.dataflows import execute

    if trace is not None:
        check_place(trace)
    sown = parse_seed(seed)
    if tiles is not None and tiles.strip().lower() == "list":
        _list_tiles(dataflow, as_json=as_json)
        return
    if cache.has_pages:
        _refuse_choices_of_pages(dataflow, tiles, trace)
        PagedAnswer.of(cache.paged_workload(question, EXECUTED_N), question.chosen_machine(), seed=sown).show(
            as_json=as_json
        )
        return
    workload = cache.applied(question.workload(EXECUTED_N, executed=True))
    if workload.is_training:
        from attenio.cli.training_run import run_step

        _refuse_choices_of_step(dataflow, tiles)
        run_step(question, workload, seed=sown, trace=trace, as_json=as_json)
        return
    answered = _planned(question, workload, dataflow, tiles)
    notes = question.notes(answered.workload)
    warn_of_long_run(answered.plan)
    begin = time.perf_counter()
    with progress_bar(f"running {answered.plan.dataflow.value}") as progress:
        done = execute(answered.plan, seed=sown, record=trace is not None, progress=progress)
    seconds = time.perf_counter() - begin
    nested = None
    if answered.nested is not None and dataflow is None:
        with progress_bar("running nested over all levels") as progress:
            nested = execute(answered.nested, seed=sown, progress=progress)
    if trace is not None:
        from attenio.cli.trace_file import write_trace

        write_trace(trace, done.trace.events)
    if as_json:
        print_json({**_as_json(answered, done, nested, seed=sown, seconds=seconds), "notes": list(notes)})
        return
    from attenio.report.tables import run_table

    tables = [run_table(done, answered), *([] if nested is None else [_nested_table(answered, nested)])]
    print_tables(*tables, *notes)


def tiles_from_text(text: str) -> "Tiles":
    """Tiles as people write them: ``query_tile=64,key_tile=1``."""
    from attenio.planning.plan import Tiles

    sizes: list[tuple[str, int]] = []
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise InvalidInput(f"tiles are {text!r}; write name=size pairs such as query_tile=64,key_tile=1")
        if name in dict(sizes):
            raise InvalidInput(f"{name} is given twice in tiles {text!r}; keep one")
        sizes.append((name, parse_count(size, name)))
    return Tiles(tuple(sizes))


def _list_tiles(dataflow: str | None, *, as_json: bool) -> None:
    """The tiles that a dataflow takes, a line for every set of them."""
    from attenio.planning.costs import tile_names

    chosen = dataflow_named(dataflow)
    if chosen is None:
        raise InvalidInput("--tiles are those of one dataflow; name it with --dataflow")
    every = tile_names(chosen)
    if as_json:
        print_json({"dataflow": chosen.value, "tiles": [list(names) for names in every]})
        return
    typer.echo("\n".join(", ".join(names) for names in every))


def _refuse_choices_of_step(dataflow: str | None, tiles: str | None) -> None:
    refuse_dataflow_of_step(dataflow)
    if tiles is not None:
        raise InvalidInput("--tiles are those of one dataflow, and a training step has two; ask about one pass")


def _refuse_choices_of_pages(dataflow: str | None, tiles: str | None, trace: Path | None) -> None:
    given = {"--dataflow": dataflow, "--tiles": tiles, "--trace": trace}
    asked = next((name for name, value in given.items() if value is not None), None)
    if asked is not None:
        raise InvalidInput(f"{asked} is of sequences, and this is a run on pages; leave it or the pages out")


def _planned(question: Question, workload: "Workload", dataflow: str | None, tiles: str | None) -> "Answer":
    from attenio.planning import plan_with
    from attenio.report import answer

    machine = question.chosen_machine()
    if tiles is not None and dataflow is None:
        raise InvalidInput("--tiles are those of one dataflow; name it with --dataflow")
    chosen = dataflow_named(dataflow)
    given = None if tiles is None or chosen is None else plan_with(workload, machine, chosen, tiles_from_text(tiles))
    answered = answer(workload, machine, dataflow=chosen)
    if given is None:
        return answered
    bounds = tuple(given.lower_bounds) if given.reads_probabilities else answered.lower_bounds
    return replace(answered, plan=given, lower_bounds=bounds)


def _as_json(
    answered: "Answer", done: "Run", nested: "NestedRun | None", *, seed: int, seconds: float
) -> dict[str, Any]:
    counted = {
        "moved_words": done.moved_words,
        "peak_words": done.peak_words,
        "max_abs_error": finite(done.max_abs_error),
        "guaranteed_error": None if done.guaranteed_error is None else finite(done.guaranteed_error),
    }
    value = {**answered.to_json(), **counted, "run": {**counted, "seed": seed, "seconds": seconds}}
    if nested is not None:
        value["nested_run"] = {
            "boundaries": [
                {"boundary": boundary.name, "moved_words": moved, "predicted_words": predicted, "peak_words": peak}
                for boundary, moved, predicted, peak in zip(
                    answered.machine.boundaries,
                    nested.moved_words,
                    nested.plan.moved_words,
                    nested.peak_words,
                    strict=True,
                )
            ],
            "max_abs_error": finite(nested.max_abs_error),
        }
    return value


def _nested_table(answered: "Answer", nested: "NestedRun") -> "RenderableType":
    numbers = ((name, "right") for name in ("predicted (words)", "counted (words)", "peak (words)"))
    table = plain_table("nested over all levels", *numbers)
    rows = zip(answered.machine.boundaries, nested.plan.moved_words, nested.moved_words, nested.peak_words, strict=True)
    for boundary, *counts in rows:
        table.add_row(boundary.name, *(f"{count:,}" for count in counts))
    table.add_row("largest absolute error against float64", "", f"{nested.max_abs_error:.3g}", "")
    return table
