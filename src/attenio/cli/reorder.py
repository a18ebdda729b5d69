"""``attenio reorder``: an order of queries and keys in which a sparse layout moves less."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import check_place, plain_table, print_aside, print_json, print_tables, progress_bar
from attenio.cli.question import DEFAULT_N, Question, asking
from attenio.errors import InvalidInput, how_to_install
from attenio.quantities import show_words

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.granularity import Granularity
    from attenio.planning import Plan, TrainingPlan
    from attenio.reordering import Method, Reordered
    from attenio.workload import Workload


@asking
def reorder(
    question: Question,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the best order of queries and keys to this .npz file.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try orders of the blocks of a sparse mask: natural, Cuthill-McKee, greedy, chained; count each one exactly.

    Rows of softmax do not depend on each other, nor a row on the order of its keys, so any order gives the same
    numbers in another place. With --direction backward or training, the gradient or the whole step is counted in each
    order.

    \b
    Examples:
      attenio reorder --n 64K --mask strided:2048
      attenio reorder --n 64K --mask bigbird:192:128:3 --fast-bytes 64KB --json
      attenio reorder --n 8K --mask block-sparse:layout.npy:64 --out order.npz
      attenio reorder --n 8K --mask strided:1024 --direction training
    """
    from attenio.bounds import largest_ordinary, lower_bounds
    from attenio.reordering.reorder import Method

    question.refuse_tolerance("orders are counted for")
    if out is not None:
        check_place(out)
        if out.suffix != ".npz":
            raise InvalidInput(f"orders are written as .npz, and {out} does not say so; use a name ending in .npz")
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    fast_words = machine.slowest_boundary.fast_words(workload.dtype)
    floor = largest_ordinary(lower_bounds(workload, machine))
    bound = floor.words
    orders = _counted(workload, fast_words, machine.granularity_of(workload.dtype))
    best = min(orders, key=lambda method: orders[method].plan.moved_words)
    if Method.CUTHILL_MCKEE not in orders:
        print_aside(f"Cuthill-McKee needs the 'pebble' extra (SciPy) and is left out: {how_to_install('pebble')}")
    if out is not None:
        _write(out, orders[best].reordering.query_order, orders[best].reordering.key_order)
    if as_json:
        rows = [
            {
                "method": method.value,
                "moved_words": each.plan.moved_words,
                "gap": each.plan.moved_words / bound,
                **_how(each.plan),
            }
            for method, each in orders.items()
        ]
        asked = {"direction": workload.direction.value, "fast_words": fast_words, "bound_words": bound}
        asked |= {"bound_theorem": floor.theorem, "bound_strength": floor.strength.value}
        value = {**asked, "best": best.value, "orders": rows}
        print_json(value if out is None else {**value, "out": str(out)})
        return
    from rich.text import Text

    written = [] if out is None else [f"order written to {out}"]
    # as text it is folded at the width of the table, which a line is not
    about = Text(f"{workload} on {machine.name}, {show_words(fast_words)} of fast memory")
    covered = Text(f"The bound, {floor.theorem}, is for {floor.covers}.\n")
    print_tables(about, covered, _table(orders, best, bound), *written)


def _counted(workload: "Workload", fast_words: int, granularity: "Granularity") -> "dict[Method, Reordered]":
    """Every order that can be found here, with the best plan in it."""
    from attenio.reordering.best import available_methods, best_reordering

    methods, orders = available_methods(), {}
    with progress_bar(f"planning in {len(methods)} orders") as progress:
        for number, method in enumerate(methods):
            orders[method] = best_reordering(workload, fast_words, methods=(method,), granularity=granularity)
            if progress is not None:
                progress(number + 1, len(methods))
    return orders


def _how(plan: "Plan | TrainingPlan") -> dict[str, Any]:
    """The dataflows and tiles of a plan, or of both passes of a step."""
    from attenio.planning import TrainingPlan

    if isinstance(plan, TrainingPlan):
        return {"saved": plan.saved.value, "forward": _how(plan.forward), "backward": _how(plan.backward)}
    return {"dataflow": plan.dataflow.value, "tiles": dict(plan.tiles)}


def _table(orders: "dict[Method, Reordered]", best: "Method", bound: int) -> "Table":
    from attenio.planning import TrainingPlan
    from attenio.report.notation import show_ratio

    step = any(isinstance(each.plan, TrainingPlan) for each in orders.values())
    chosen = ("saved", "forward", "backward") if step else ("dataflow", "tiles")
    table = plain_table("order", ("moved (words)", "right"), ("÷ bound", "right"), *chosen)
    for method, each in orders.items():
        plan = each.plan
        if isinstance(plan, TrainingPlan):
            how: tuple[str, ...] = (plan.saved.value, plan.forward.dataflow.value, plan.backward.dataflow.value)
        else:
            how = (plan.dataflow.value, str(plan.tiles))
        moved = (f"{plan.moved_words:,}", show_ratio(plan.moved_words / bound))
        table.add_row(method.value, *moved, *how, style="bold" if method is best else "")
    return table


def _write(path: Path, queries: object, keys: object) -> None:
    import io

    import numpy as np

    from attenio.files import write_atomically

    stream = io.BytesIO()
    np.savez(stream, queries=np.asarray(queries), keys=np.asarray(keys))
    write_atomically(path, stream.getvalue())
