"""``attenio report``: everything about one workload on one machine, as a page with plots."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.cache import Cache
from attenio.cli.devices import Devices, asking_devices, idle_notes
from attenio.cli.options import AsJson
from attenio.cli.output import SOON_SECONDS, check_place, print_json, print_tables, progress_bar
from attenio.cli.pages_sweep import report_of_pages
from attenio.cli.question import DEFAULT_N, Question
from attenio.errors import InvalidInput


@asking_devices
def report(
    question: Question,
    cache: Cache,
    devices: Devices,
    out: Annotated[Path, typer.Option("--out", help="The page to write; it needs no network.", metavar="PATH")] = Path(
        "report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Write a self-contained page: words against fast memory and against n, a roofline, and every gap; print the plan.

    With --page-size or --requests, the page is about requests whose keys lie in pages: the plan, requests apart and the
    bound against fast memory, the tree of shared pages, and the bits of keys.

    \b
    Examples:
      attenio report
      attenio report --n 32K --d 128 --machine h100 --out h100.html
      attenio report --model mistral-7b --n 32K --machine a100 --json
      attenio report --n 32K --d 128 --direction training --out step.html
      attenio report --model llama-3-70b --requests 64x33K --shared-prefix 32K --page-size 64 --machine h200
      attenio report --n 1M --d 128 --heads 64 --kv-heads 8 --machine h100 --devices 64 --topology dgx-h100:8x8
    """
    check_place(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"report writes HTML, and {out} does not say so; use a name ending in .html")
    if cache.has_pages:
        report_of_pages(question, cache, devices, out, as_json=as_json)
        return
    workload = cache.applied(question.workload(DEFAULT_N))
    machine = devices.on_topology(question).chosen_machine()
    spread, idle = None, tuple[str, ...]()
    if devices.are_asked:
        from attenio.report.cluster import cluster_answer

        question.refuse_tolerance("many devices are planned for")
        workload = workload if cache.has_forms else workload.plain
        cluster = devices.cluster(machine)
        with progress_bar("planning for many devices", first_line_s=SOON_SECONDS) as progress:
            spread = cluster_answer(workload, cluster, devices.chosen_grid, progress=progress)
        idle = idle_notes(cluster)
    notes = (*question.notes(workload), *devices.notes(question, [machine], [workload.dtype]), *idle)
    if workload.is_training:
        from attenio.report import training_answer, write_training_report
        from attenio.report.tables import training_tables

        step = training_answer(workload, machine)
        with progress_bar("drawing the report", first_line_s=SOON_SECONDS) as progress:
            written = write_training_report(out, workload, machine, progress=progress, spread=spread)
        value, tables = step.to_json(), training_tables(step)
    else:
        from attenio.report import answer, write_report
        from attenio.report.tables import plan_tables

        answered = answer(workload, machine)
        with progress_bar("drawing the report", first_line_s=SOON_SECONDS) as progress:
            written = write_report(out, workload, machine, progress=progress, spread=spread)
        value, tables = answered.to_json(), plan_tables(answered)
    if as_json:
        many = {} if spread is None else {"cluster": spread.to_json()}
        print_json({**value, **many, "notes": list(notes), "report": str(written)})
        return
    if spread is not None:
        from attenio.report.cluster_tables import cluster_tables

        print_tables(cluster_tables(spread), "")
    print_tables(tables, *notes, f"\nThe plots are in {written}")
