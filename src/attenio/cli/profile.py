"""``attenio profile``: DRAM bytes that a GPU counts, beside predicted ones and the bound."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import plain_table, print_json, print_tables
from attenio.cli.question import Question, asking
from attenio.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.measurement.ncu import Counters
    from attenio.measurement.profile import Profile

_DEFAULT_N = 16384


@asking
def profile(
    question: Question,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            help="Count this one (may be repeated): attenio, sdpa cudnn, sdpa flash, flex, attenio deterministic"
            " (default: the first three).",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the DRAM bytes of one call with Nsight Compute: ours and the peers', kernel by kernel.

    Beside them stand the bytes that were predicted from the order of the tiles, inputs and outputs once each, and a
    bound on what moves between this GPU's L2 and its memory, with the algorithms that it covers. The L2 holds none of
    a call's data when it begins; what is left dirty in it at the end is not counted.

    \b
    Examples:
      attenio profile --n 64K --heads 4 --d 128 --dtype bf16
      attenio profile --n 256K --d 128 --dtype bf16 --json
      attenio profile --n 8K --heads 16 --d 128 --dtype bf16 --direction backward
      attenio profile --keys 128K --decode --heads 32 --kv-heads 8 --d 128 --dtype bf16 --contender attenio
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("profile", "torch") from None
    for name in ("machine", "fast_bytes", "accumulator"):
        if getattr(question, name) is not None:
            raise InvalidInput(f"profile runs on the GPU at hand; leave --{name.replace('_', '-')} out")
    if not torch.cuda.is_available():
        raise InvalidInput(
            "this PyTorch sees no NVIDIA GPU, and profile counts what one does; run it where there is one"
        )
    from attenio.measurement.profile import CONTENDERS
    from attenio.measurement.profile import profile as counted
    from attenio.measurement.provenance import provenance
    from attenio.measurement.software import software_of

    question.refuse_tolerance("kernels compute")
    workload = question.timed_workload(_DEFAULT_N)
    profiled = counted(workload, names=contender or CONTENDERS)
    if as_json:
        print_json({**profiled.to_json(), **software_of("cuda"), "provenance": asdict(provenance())})
        return
    print_tables(*tables(profiled))


def tables(profiled: "Profile") -> "tuple[str | Table, ...]":
    """A line for each contender, for each of its kernels, and for each that refuses."""
    number = "right"
    table = plain_table(
        "contender, kernels", ("read MB", number), ("written MB", number), ("moved MB", number), ("predicted", number),
        ("÷ bound", number), ("ms", number),
    )  # fmt: skip
    refused = [f"{each.name}: {each.refused or 'refused'}" for each in profiled.contenders if each.moved_bytes is None]
    for each in profiled.contenders:
        if each.moved_bytes is None:
            continue
        read, written = (sum(getattr(x, name) for x in each.launches) for name in ("read_bytes", "written_bytes"))
        predicted = "-" if each.predicted is None else _megabytes(each.predicted.moved_bytes)
        milliseconds = sum(x.nanoseconds for x in each.launches) / 1e6
        table.add_row(
            each.name, _megabytes(read), _megabytes(written), _megabytes(each.moved_bytes), predicted,
            f"{each.moved_bytes / profiled.bound_bytes:.2f}", f"{milliseconds:.4g}",
        )  # fmt: skip
        for kernel, launches in _by_kernel(each.launches).items():
            read, written = (sum(getattr(x, name) for x in launches) for name in ("read_bytes", "written_bytes"))
            milliseconds = sum(x.nanoseconds for x in launches) / 1e6
            table.add_row(
                f"  {len(launches)} x {kernel[:24]}", _megabytes(read), _megabytes(written),
                _megabytes(read + written), "", "", f"{milliseconds:.4g}",
            )  # fmt: skip
    least = (
        f"inputs and outputs once: {_megabytes(profiled.compulsory_bytes)} MB; with"
        f" {profiled.cache_bytes / 2**20:.0f} MB of L2, {profiled.bound.covers} moves at least"
        f" {_megabytes(profiled.bound_bytes)} MB ({profiled.bound.theorem}, {profiled.bound.strength.value})"
    )
    return str(profiled.workload), least, table, *refused


def _by_kernel(launches: "tuple[Counters, ...]") -> "dict[str, list[Counters]]":
    by_kernel: dict[str, list[Counters]] = {}
    for each in launches:
        by_kernel.setdefault(each.kernel, []).append(each)
    return by_kernel


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.4g}" if size_bytes < 1e10 else f"{size_bytes / 1e6:,.0f}"
