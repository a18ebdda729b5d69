"""``attenio reorder``: an order of queries and keys in which a sparse layout moves less."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.output import check_place, plain_table, print_aside, print_json, print_tables
from attenio.cli.question import DEFAULT_N, AsJson, Question, asking
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from attenio.workload import Workload

__all__ = ["reorder"]


@asking
def reorder(
    question: Question,
    out: Annotated[
        Path | None, typer.Option(help="Write the best order of queries and keys to this .npz file.", metavar="PATH")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try orders of the blocks of a sparse mask: natural, Cuthill-McKee, greedy, chained; count each one exactly.

    Rows of softmax do not depend on each other, nor a row on the order of its keys, so any order gives the same
    numbers in another place.

    \b
    Examples:
      attenio reorder --n 64K --mask strided:2048
      attenio reorder --n 64K --mask bigbird:192:128:3 --fast-bytes 64KB --json
      attenio reorder --n 8K --mask block-sparse:layout.npy:64 --out order.npz
    """
    from attenio.bounds import largest_absolute, lower_bounds
    from attenio.reordering.best import available_methods, best_reordering
    from attenio.reordering.reorder import Method

    if out is not None:
        check_place(out)
        if out.suffix != ".npz":
            raise InvalidInput(f"orders are written as .npz, and {out} does not say so; use a name ending in .npz")
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    _refuse_other_directions(workload)
    fast_words = machine.slowest_boundary.fast_words(workload.dtype)
    bound = largest_absolute(lower_bounds(workload, machine)).words
    found = {method: best_reordering(workload, fast_words, methods=(method,)) for method in available_methods()}
    best = min(found, key=lambda method: found[method].plan.moved_words)
    if Method.CUTHILL_MCKEE not in found:
        print_aside("Cuthill-McKee needs the 'pebble' extra (SciPy) and is left out: pip install 'attenio[pebble]'")
    if out is not None:
        _write(out, found[best].reordering.query_order, found[best].reordering.key_order)
    if as_json:
        rows = [
            {
                "method": method.value,
                "moved_words": each.plan.moved_words,
                "gap": each.plan.moved_words / bound,
                "dataflow": each.plan.dataflow.value,
                "tiles": dict(each.plan.tiles),
            }
            for method, each in found.items()
        ]
        value = {"fast_words": fast_words, "bound_words": bound, "best": best.value, "orders": rows}
        print_json(value if out is None else {**value, "out": str(out)})
        return
    table = plain_table("order", ("moved (words)", "right"), ("÷ bound", "right"), "dataflow", "tiles")
    for method, each in found.items():
        ratio = f"{each.plan.moved_words / bound:.4f}×"
        style = "bold" if method is best else ""
        table.add_row(
            method.value,
            f"{each.plan.moved_words:,}",
            ratio,
            each.plan.dataflow.value,
            str(each.plan.tiles),
            style=style,
        )
    written = [] if out is None else [f"order written to {out}"]
    print_tables(f"{workload} on {machine.name}, {fast_words:,} words of fast memory", "", table, *written)


def _refuse_other_directions(workload: "Workload") -> None:
    from attenio.workload import Direction

    if workload.direction is not Direction.FORWARD:
        raise InvalidInput(f"orders are counted for the forward pass, not {workload.direction.value}; leave it out")


def _write(path: Path, queries: object, keys: object) -> None:
    import io

    import numpy as np

    from attenio.files import write_atomically

    stream = io.BytesIO()
    np.savez(stream, queries=np.asarray(queries), keys=np.asarray(keys))
    write_atomically(path, stream.getvalue())
