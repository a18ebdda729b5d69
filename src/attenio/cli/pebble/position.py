"""Which graph and which game: the options that the pebble commands share."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.options import option_field
from attenio.errors import InvalidInput
from attenio.quantities import parse_count

# NumPy loads when a graph is built, so that --help need not wait for it.
if TYPE_CHECKING:
    from attenio.pebbling import ComputationGraph, Game, Variant

_GRAPH = "Graph"
_MOST_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class GraphChoice:
    """A graph by name with its sizes, or from a file."""

    graph: str = option_field(
        "product, tall-skinny, attention, attention-backward, strassen, fft, pyramid, binary-tree or stencil; or a"
        " file: .graphml, .dot, .gv, or a list of edges, .edges or .txt (default attention).",
        "NAME|PATH",
        panel=_GRAPH,
        default="attention",
    )
    n: str | None = option_field("Rows and keys of attention; size of a product.", "COUNT", panel=_GRAPH)
    rows: str | None = option_field("Rows, where they differ from n.", "COUNT", panel=_GRAPH)
    columns: str | None = option_field("Columns of a product, where they differ.", "COUNT", panel=_GRAPH)
    depth: str | None = option_field("Inner length of a product.", "COUNT", panel=_GRAPH)
    keys: str | None = option_field("Keys, where they differ from n.", "COUNT", panel=_GRAPH)
    d: str | None = option_field("Width of a head.", "COUNT", panel=_GRAPH)
    value_dim: str | None = option_field("Width of values, where it differs from d.", "COUNT", panel=_GRAPH)
    mask: str | None = option_field("dense, causal, window:2, ...", "MASK", panel=_GRAPH)
    softmax: str | None = option_field("plain (default), online, normalised or unshifted.", "FORM", panel=_GRAPH)
    accumulation: str | None = option_field("How sums are made: chain (default), tree or wide.", "FORM", panel=_GRAPH)
    levels: str | None = option_field("Levels of Strassen's recursion.", "COUNT", panel=_GRAPH)
    points: str | None = option_field("Points of an FFT or a stencil.", "COUNT", panel=_GRAPH)
    height: str | None = option_field("Height of a pyramid or a tree.", "COUNT", panel=_GRAPH)
    steps: str | None = option_field("Steps of a stencil.", "COUNT", panel=_GRAPH)
    radius: str | None = option_field("Reach of a stencil.", "COUNT", panel=_GRAPH)
    dimensions: str | None = option_field("Dimensions of a stencil: 1 or 2.", "COUNT", panel=_GRAPH)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was said about the graph's sizes and forms."""
        given: dict[str, Any] = {}
        for field in fields(GraphChoice):
            text = getattr(self, field.name)
            if field.name != "graph" and text is not None:
                counts = field.metadata["metavar"] == "COUNT"
                given[field.name] = parse_count(text, field.name) if counts else text
        return given

    def chosen_graph(self) -> "ComputationGraph":
        """The graph asked about."""
        if "." not in self.graph and "/" not in self.graph:  # no file
            from attenio.pebbling.graphs.named import named_graph

            return named_graph(self.graph, self.parameters)
        if self.parameters:
            name = next(iter(self.parameters)).replace("_", "-")
            raise InvalidInput(f"--{name} is for graphs by name, and {self.graph} is a file; leave it out")
        from attenio.pebbling.graph_files import read_graph

        return read_graph(Path(self.graph))


@dataclass(frozen=True, kw_only=True)
class GameChoice(GraphChoice):
    """A graph, the rules, and the number of red pebbles."""

    red: str | None = option_field("Red pebbles: words of fast memory.", "COUNT", panel="Game")
    game: str | None = option_field(
        "standard (default: recomputation allowed), one-shot or partial.", "RULES", panel="Game"
    )
    sliding: bool = option_field("A computed value may take the place of a parent.", panel="Game", default=False)

    def chosen_game(self) -> "Game":
        """The game asked about; without --red, on as few pebbles as it can be won with."""
        from attenio.pebbling import Game

        graph, variant = self.chosen_graph(), variant_named("standard" if self.game is None else self.game)
        plenty = int(graph.weights.sum())
        fewest = Game(graph=graph, red=plenty, variant=variant, sliding=self.sliding).fewest_red
        red = fewest if self.red is None else parse_count(self.red, "red pebbles")
        return Game(graph=graph, red=red, variant=variant, sliding=self.sliding)


def variant_named(name: str) -> "Variant":
    """The rules with this name."""
    from attenio.names import member_named
    from attenio.pebbling import Variant

    return member_named(Variant, name, "game")


def time_limit_seconds(text: str) -> float:
    """A time limit as people write it: 60, 0.5, 90s or 2m."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, factor = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * factor
    except ValueError:
        raise InvalidInput(f"time limit is {text!r}; write seconds such as 60, or 90s, 2m, 1h") from None
    if not 0 < seconds <= _MOST_SECONDS:  # NaN is refused here too
        raise InvalidInput(f"time limit is {text!r}; it must be above 0 and at most a week")
    return seconds
