"""``attenio pebble graph``: what a graph looks like, and the graph as a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import check_place, plain_table, print_json, print_tables
from attenio.cli.pebble.position import GraphChoice

# As many vertices as a screen shows.
_SHOWN = 30


@taking(GraphChoice)
def graph(
    choice: GraphChoice,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the graph to this .graphml, .dot or .edges file.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a graph: its size, its inputs and outputs, the fewest red pebbles of each game.

    \b
    Examples:
      attenio pebble graph --graph attention --n 2 --d 1
      attenio pebble graph --graph fft --points 8 --out fft.dot
      attenio pebble graph --graph product --n 16 --json
    """
    from attenio.pebbling import Game, Variant

    if out is not None:
        check_place(out)
    built = choice.chosen_graph()
    if out is not None:
        from attenio.pebbling.graph_files import write_graph

        write_graph(built, out)
    plenty = int(built.weights.sum())
    fewest = {variant.value: Game(graph=built, red=plenty, variant=variant).fewest_red for variant in Variant}
    if as_json:
        value: dict[str, Any] = {
            "graph": built.name,
            "vertices": len(built),
            "edges": built.edges,
            "inputs": len(built.inputs),
            "outputs": [built.names[vertex] for vertex in built.outputs.tolist()],
            "compulsory_words": built.compulsory_words,
            "fewest_red": fewest,
            "parents": {name: [built.names[u] for u in built.parents[v]] for v, name in enumerate(built.names)},
        }
        print_json(value if out is None else {**value, "out": str(out)})
        return
    summary = plain_table(built.name, ("", "right"))
    summary.add_row("vertices", f"{len(built):,}")
    summary.add_row("edges", f"{built.edges:,}")
    summary.add_row("inputs", f"{len(built.inputs):,}")
    summary.add_row("outputs", f"{len(built.outputs):,}")
    summary.add_row("words that any game moves", f"{built.compulsory_words:,}")
    for name, red in fewest.items():
        summary.add_row(f"fewest red pebbles, {name} game", f"{red:,}")
    vertices = plain_table("vertex", "needs")
    for vertex in range(min(len(built), _SHOWN)):
        vertices.add_row(built.names[vertex], ", ".join(built.names[u] for u in built.parents[vertex]) or "(input)")
    rest = [f"... and {len(built) - _SHOWN:,} more; --json or --out has them all"] if len(built) > _SHOWN else []
    print_tables(summary, "", vertices, *rest, *([f"written to {out}"] if out is not None else []))
