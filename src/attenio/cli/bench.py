"""``attenio bench``: ours and every peer present, timed side by side."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import check_place, plain_table, print_json, print_tables, progress_bar
from attenio.cli.question import Question, asking
from attenio.errors import InvalidInput, MissingExtra
from attenio.quantities import parse_count, show_digits, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.measurement.result import Bench

_DEFAULT_N = 1024


@asking
def bench(
    question: Question,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", help="cpu or cuda (default: a GPU if there is one).", metavar="DEVICE", show_default=False
        ),
    ] = None,
    repeats: Annotated[
        str, typer.Option("--repeats", help="Samples of each contender, all kept.", metavar="COUNT")
    ] = "7",
    flex: Annotated[
        bool | None,
        typer.Option(
            "--flex/--no-flex",
            help="FlexAttention, which has to be compiled first (default: on a GPU).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Keep every sample in this file; what it holds is not timed again.", metavar="PATH"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the samples, and all others in --out, on a page.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time attenio's kernels, SDPA's backends, FlexAttention and JAX's kernel in one run, on random data, with errors.

    Errors are the largest against float64: of the last 64 queries of the first sequence, or of gradients of the last
    queries and the first keys of a head, unless that takes long. The roof is the best of square products and of copies
    in the same run, or the fastest contender where that did more. Operations are those of the required scores; bytes
    are inputs and outputs, each once.

    \b
    Examples:
      attenio bench --n 1K --heads 8 --dtype fp32
      attenio bench --keys 32K --decode --heads 32 --kv-heads 4 --d 128 --dtype fp32
      attenio bench --n 2K --direction backward --dtype fp32 --json
      attenio bench --n 16K --heads 16 --d 128 --mask window:1K --dtype bf16 --device cuda
      attenio bench --n 8K --heads 16 --d 128 --dtype fp16 --out bench.json --plot bench.html
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("bench", "torch") from None
    for name in ("machine", "fast_bytes", "accumulator"):
        if getattr(question, name) is not None:
            raise InvalidInput(f"bench runs on the machine at hand; leave --{name.replace('_', '-')} out")
    samples = parse_count(repeats, "repeats")
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    for path in (out, plot):
        if path is not None:
            check_place(path)
    if plot is not None:
        from attenio.report.bench_page import check_page, write_bench_page

        check_page(plot)
    from attenio.measurement.bench import bench as timed
    from attenio.measurement.provenance import provenance
    from attenio.measurement.record import Record

    question.refuse_tolerance("kernels compute")
    workload, made_by = question.timed_workload(_DEFAULT_N), asdict(provenance())
    record = None if out is None else Record(out, made_by)
    torch.manual_seed(0)
    with progress_bar("timing") as progress:
        bench_result = timed(
            workload, chosen, repeats=samples, flex=chosen == "cuda" if flex is None else flex, record=record,
            progress=progress,
        )  # fmt: skip
    value = {**bench_result.to_json(), "provenance": made_by}
    if plot is not None:
        write_bench_page(plot, [value] if record is None else record.benches)
    if as_json:
        print_json(value)
        return
    print_tables(*_tables(bench_result), *(f"the plot is in {path}" for path in (plot,) if path is not None))


def _tables(bench_result: "Bench") -> "tuple[str | Table, ...]":
    number = "right"
    table = plain_table(
        "contender",
        ("time", number),
        ("TFLOP/s", number),
        ("GB/s", number),
        ("of roof", number),
        ("error", number),
        "note",
    )
    for each in bench_result.timings:
        if each.median_ms is None:
            table.add_row(each.name, "-", "-", "-", "-", "-", each.refused or "")
            continue
        share = bench_result.share_of_roof(each)
        error = "-" if each.max_abs_error is None else f"{each.max_abs_error:.1e}"
        numbers = (bench_result.tflop_per_s(each) or 0.0, bench_result.gb_per_s(each) or 0.0)
        taken = show_seconds(each.median_ms / 1e3)
        table.add_row(each.name, taken, *map(show_digits, numbers), f"{share:.1%}", error, "")
    ratio = bench_result.ratio_to_best_peer
    flops, rate = show_digits(bench_result.roof.flops_per_s / 1e12), show_digits(bench_result.roof.bytes_per_s / 1e9)
    roof = f"roof here: {flops} TFLOP/s, {rate} GB/s"
    if bench_result.roof_raised > 1:
        roof += f", raised {bench_result.roof_raised:.2f} times to what the fastest contender did"
    last = () if ratio is None else (f"the best peer takes {ratio:.2f} times as long as attenio",)
    return str(bench_result.workload), f"on {bench_result.device_name}; {roof}", table, *last
