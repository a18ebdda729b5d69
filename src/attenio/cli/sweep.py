"""``attenio sweep``: the best plan at every point of a grid of workloads and machines."""

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.cache import Cache
from attenio.cli.devices import Devices, asking_devices
from attenio.cli.devices_sweep import sweep_devices
from attenio.cli.grid import names, numbers, sizes
from attenio.cli.options import AsJson
from attenio.cli.output import check_place, plain_table, print_aside, print_json, print_tables, progress_bar, prose
from attenio.cli.pages_sweep import sweep_of_pages
from attenio.cli.question import DEFAULT_D, DEFAULT_MACHINE, Question, direction_named
from attenio.cli.stopped import Stopped
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from attenio.catalogue import Model
    from attenio.planning import SweepGrid, SweepResult

DEFAULT_LENGTHS = "1K:1M:x2"
# As many points as a screen shows; more are in the file.
_SHOWN = 40
_LENGTHS, _SHAPES = ("queries", "keys"), ("d", "value_dim", "heads", "kv_heads", "batch")
# The columns whose values are counted, and what the counts are called.
_CHOSEN = {
    "dataflow": ("best_dataflow", "best dataflow"),
    "saved": ("saved", "saved between the passes"),
    "forward_dataflow": ("best_forward_dataflow", "best forward dataflow"),
    "backward_dataflow": ("best_backward_dataflow", "best backward dataflow"),
}
_SHOWN_COLUMNS = (*_LENGTHS, *_SHAPES, "mask", "dtype", "kv_bits", "accumulator", "machine", "fast_words")


@asking_devices
def sweep(
    question: Question,
    cache: Cache,
    devices: Devices,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write every point to this .parquet, .csv, .json or .jsonl file.", metavar="PATH"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Plan on a Dask cluster: local:4 for four processes here, or the tcp:// address of a scheduler.",
            metavar="WHERE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan every combination of lists: 1K,2K,4K or first:last:x2 or first:last:+64.

    Counts, sizes, types, masks and machines may all be lists; machines and fast memories are swept one after the other.
    With --direction training a point has the plans of both passes, and what is saved between them.
    A sweep with --out that was stopped goes on where it was when the same command is given again.
    With --devices, which may be a list too, a point has the best grid of devices and what each of them sends.
    With --page-size or --requests a point has requests on pages: --page-size, --shared-prefix, --new, --kv-bits, --keys
    and --batch may be lists.

    \b
    Examples:
      attenio sweep --n 1K:1M:x2 --d 64,128
      attenio sweep --n 4K --fast-bytes 16KB:4MB:x2 --mask dense,causal,window:1K
      attenio sweep --n 1K:1M:x1.01 --d 32:256:+32 --fast-bytes 32KB:2MB:+16KB --out results.parquet
      attenio sweep --model llama-3-70b --decode --n 1K:128K:x2 --machine a100,h100,h200 --json
      attenio sweep --n 4K --d 64,128 --fast-bytes 8KB:4MB:x2 --direction training --out step.csv
      attenio sweep --model llama-3-70b --decode --n 8K,128K --batch 16 --kv-bits 16,8,4 --machine h200
      attenio sweep --model llama-3-70b --keys 33K --batch 64 --shared-prefix 0,32K --page-size 16,64 --kv-bits 16,8
      attenio sweep --n 1M --d 128 --heads 64 --kv-heads 8 --devices 8:4096:x2 --mask dense,causal --out devices.csv
      attenio sweep --n 1K:1M:x1.01 --mask documents:512,512 --out packed.parquet --cluster local:4
    """
    if out is not None:
        from attenio.planning.sweeping.files import refuse_finished

        check_place(out)
        refuse_finished(out)
    if cache.has_pages:
        sweep_of_pages(question, cache, devices, out, cluster, as_json=as_json)
        return
    grid = grid_of(devices.on_topology(question), cache)
    _refuse_nonsense(grid)
    if devices.are_asked:
        if cluster is not None:
            raise InvalidInput("a sweep over --devices takes no --cluster; leave one of them out")
        for note in devices.notes(question, grid.computers, grid.axes["dtypes"]):
            print_aside(note)
        sweep_devices(grid, devices, out, as_json=as_json)
        return
    result = _planned(grid, out, cluster)
    if as_json:
        summary = _summary(result)
        print_json({**summary, "out": str(out)} if out is not None else {**summary, "rows": list(result.rows())})
        return
    parts: list[RenderableType] = [*([_points(result)] if len(grid) <= _SHOWN else []), *_tables(result)]
    print_tables(*parts, *([f"every point is in {out}"] if out is not None else []))


def _refuse_nonsense(grid: "SweepGrid") -> None:
    """A few combinations of which none is a workload are a slip; among others, such points carry a reason."""
    refusal = None
    for point in range(len(grid)) if len(grid) <= _SHOWN else ():
        try:
            grid.workload(point)
        except InvalidInput as invalid:
            refusal = refusal or invalid
        else:
            return
    if refusal is not None:
        raise refusal


def _planned(grid: "SweepGrid", out: Path | None, cluster: str | None) -> "SweepResult":
    from attenio.planning import sweep as planned_sweep

    try:
        with progress_bar(f"planning {len(grid):,} points") as progress:
            return planned_sweep(grid, out=out, progress=progress, tell=print_aside, cluster=cluster)
    except KeyboardInterrupt:
        if out is None:
            raise
        raise Stopped(f"stopped; the same command goes on from here, with what is kept in {out}.parts") from None


def grid_of(question: Question, cache: Cache | None = None) -> "SweepGrid":
    """The grid that the options describe, every one of them a list."""
    from attenio.catalogue import machine_named, model_named
    from attenio.planning import SweepGrid

    cache = Cache() if cache is None else cache
    cache.refuse_pages("this sweep has")
    if cache.softcap is not None:
        raise InvalidInput("--softcap does not change what is moved; leave it out of a sweep")
    if question.scale is not None:
        raise InvalidInput("--scale does not change what is moved; leave it out of a sweep")
    if question.tolerance is not None or question.entry_bound is not None:
        raise InvalidInput(
            "a sweep plans exact attention; leave --tolerance and --entry-bound out, or ask attenio plan about points"
        )
    model = None if question.model is None else model_named(question.model)
    default = [DEFAULT_MACHINE] if question.fast_bytes is None else []
    machines = [machine_named(name) for name in names(question.machine, "machine") or default]
    return SweepGrid(
        **_lengths(question),
        **_heads(question, model),
        batch=_numbers(question, "batch", (1,)),
        masks=_texts(question.mask, "dense" if model is None else str(model.mask)),
        dtypes=_texts(question.dtype, "fp16" if model is None else model.dtype.value),
        accumulators=_texts(question.accumulator, None),
        fast_bytes=() if question.fast_bytes is None else sizes(question.fast_bytes, "fast-bytes"),
        machines=[each.with_free_tiles() for each in machines] if question.free_tiles else machines,
        direction=direction_named(question.direction),
        values_in_keys=_reads_latent(question, model),
        kv_bits=(None,) if cache.kv_bits is None else numbers(cache.kv_bits, "kv-bits"),
        sinks=cache.sinks or (model is not None and model.sinks),
    )


def _reads_latent(question: Question, model: "Model | None") -> bool:
    """Whether all points are decode steps of a model whose values are part of its keys, as it has them."""
    if model is None or not question.decode:
        return False
    return model.decode.values_in_keys and question.d is None and question.value_dim is None


def _lengths(question: Question) -> dict[str, Any]:
    question.check_lengths()
    n = numbers(question.n if question.n is not None else DEFAULT_LENGTHS, "n")
    queries, keys = _numbers(question, "queries", ()), _numbers(question, "keys", ())
    if question.decode:
        if queries not in ((), (1,)):
            raise InvalidInput("--decode asks about one query but --queries says otherwise; leave one of them out")
        queries = (1,)
    if not queries:
        # as for one plan: --n gives the queries where --keys gives the keys, and without --n both are the keys
        return {"n": keys or n} if question.n is None or not keys else {"queries": n, "keys": keys}
    return {"queries": queries, "keys": keys or n}


def _heads(question: Question, model: "Model | None") -> dict[str, Any]:
    """Heads and widths; those that are equal in a model stay equal when one of them is given."""
    if model is None:
        return {
            "d": _numbers(question, "d", (DEFAULT_D,)),
            "value_dim": _numbers(question, "value_dim", ()) or (None,),
            "heads": _numbers(question, "heads", (1,)),
            "kv_heads": _numbers(question, "kv_heads", ()) or (None,),
        }
    shape = model.decode if question.decode else model.prefill
    value_dim = None if shape.value_dim == shape.d else shape.value_dim
    kv_heads = None if shape.kv_heads == shape.heads else shape.kv_heads
    return {
        "d": _numbers(question, "d", (shape.d,)),
        "value_dim": _numbers(question, "value_dim", ()) or (value_dim,),
        "heads": _numbers(question, "heads", (shape.heads,)),
        "kv_heads": _numbers(question, "kv_heads", ()) or (kv_heads,),
    }


def _numbers(question: Question, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    text = getattr(question, name)
    return default if text is None else numbers(text, name)


def _texts(text: str | None, default: str | None) -> tuple[Any, ...]:
    """Names between commas; a comma before a digit belongs to a name, as in ``documents:1024,512``."""
    return (default,) if text is None else tuple(part.strip() for part in re.split(r",\s*(?=[A-Za-z])", text))


def _summary(result: "SweepResult") -> dict[str, Any]:
    import numpy as np

    from attenio.workload import Direction

    found, gaps_found = 0, []
    wins: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    for columns in result.blocks():
        planned = columns["moved_words"] >= 0
        found += int(planned.sum())
        gaps_found.append(columns["gap"][planned & (columns["lower_bound_words"] > 0)])
        reasons.update(reason for reason in columns["reason"] if reason is not None)
        for column, (key, _) in _CHOSEN.items():
            if column in columns:
                names, counts = np.unique(columns[column][planned].astype(str), return_counts=True)
                wins.setdefault(key, Counter()).update(dict(zip(names.tolist(), counts.tolist(), strict=True)))
    chosen = {key: dict(sorted(each.items(), key=lambda win: (-win[1], win[0]))) for key, each in wins.items()}
    gaps = np.concatenate(gaps_found)
    middle = np.quantile(gaps, (0.0, 0.5, 1.0)).tolist() if gaps.size else (None, None, None)
    return {
        "direction": Direction.named(result.grid.direction).value,
        "points": len(result),
        "planned": found,
        **chosen,
        "gap": dict(zip(("least", "median", "largest"), middle, strict=True)),
        "reasons": dict(reasons.most_common()),
        "notes": list(result.notes),
    }


def _tables(result: "SweepResult") -> "list[RenderableType]":
    from attenio.report.notation import show_ratio

    summary = _summary(result)
    tables: list[RenderableType] = []
    for key, title in _CHOSEN.values():
        if summary["planned"] and key in summary:
            wins = plain_table(title, ("points", "right"))
            for name, count in summary[key].items():
                wins.add_row(name, f"{count:,}")
            tables.append(wins)
    lines = [f"{summary['planned']:,} of {summary['points']:,} points have a plan"]
    gap = summary["gap"]
    if gap["least"] is not None:
        span = f"{show_ratio(gap['least'])} to {show_ratio(gap['largest'])}, median {show_ratio(gap['median'])}"
        lines.append(f"words moved over the largest bound for ordinary products: {span}")
    reasons = [prose(f"{count:,} without: {reason}") for reason, count in list(summary["reasons"].items())[:5]]
    return [*tables, *lines, *reasons]


def _points(result: "SweepResult") -> "Table":
    """The points of a small sweep, with the columns that differ between them."""
    from attenio.report.notation import show_ratio

    rows = list(result.rows())
    shown = [name for name in _SHOWN_COLUMNS if len({row[name] for row in rows}) > 1]
    headers = dict(zip(shown, shown, strict=True))
    if "keys" in shown and all(row["queries"] == row["keys"] for row in rows):
        shown.remove("queries")
        headers["keys"] = "n"
    results = (("moved (words)", "right"), ("÷ bound", "right"))
    chosen = [name for name in _CHOSEN if name in result.columns]
    titles = [name.replace("_dataflow", "") for name in chosen]
    table = plain_table(*((headers[name], "right") for name in shown), *titles, *results)
    for row in rows:
        moved = "-" if row["moved_words"] is None else f"{row['moved_words']:,}"
        gap = "-" if row["gap"] is None else show_ratio(row["gap"])
        values = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in shown]
        table.add_row(*values, *(row[name] or "-" for name in chosen), moved, gap)
    return table
