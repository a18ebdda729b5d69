"""Games and solutions as JSON values and tables."""

from typing import TYPE_CHECKING, Any

from attenio.cli.output import plain_table
from attenio.plain_values import plain_fields
from attenio.quantities import show_seconds, show_words

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.pebbling import Game, Schedule, Solution


def game_to_json(game: "Game") -> dict[str, Any]:
    """What is played."""
    return {
        "graph": game.graph.name,
        "vertices": len(game.graph),
        "edges": game.graph.edges,
        "game": game.variant.value,
        **plain_fields(game, "sliding", "red", "fewest_red"),
    }


def moves_to_json(game: "Game", schedule: "Schedule") -> list[dict[str, Any]]:
    """The moves, as a schedule file has them."""
    from attenio.pebbling.schedule_files import SECOND

    names = game.graph.names
    moves = []
    for kind, vertex, parent in schedule:
        second = {} if parent is None else {SECOND[kind]: names[parent]}
        moves.append({"move": kind.value, "vertex": names[vertex], **second})
    return moves


def solution_to_json(solution: "Solution", *, with_moves: bool = True) -> dict[str, Any]:
    """What was found and what is proven."""
    value = {
        **game_to_json(solution.game),
        "cost": solution.cost_words,
        "optimal": solution.optimal,
        "lower_bound": solution.lower_bound_words,
        "gap": solution.gap,
        "unit": "words",
        **plain_fields(solution, "engine", "ending", "explored", "seconds"),
    }
    return {**value, "moves": moves_to_json(solution.game, solution.schedule)} if with_moves else value


def solution_table(*solutions: "Solution") -> "Table":
    """One row an engine."""
    table = plain_table(
        "engine", ("cost\n(words)", "right"), ("proven\n(words)", "right"), "result", ("explored", "right"), "time"
    )
    for solution in solutions:
        result = "optimal" if solution.optimal else f"within {solution.gap:.4g}×\n({solution.ending.value})"
        table.add_row(
            solution.engine,
            f"{solution.cost_words:,}",
            f"{solution.lower_bound_words:,}",
            result,
            f"{solution.explored:,}",
            show_seconds(solution.seconds),
        )
    return table


def game_line(game: "Game") -> str:
    """The game in one line."""
    rules = f"{game.variant.value} game" + (", sliding" if game.sliding else "")
    return (
        f"{game.graph.name}: {len(game.graph):,} vertices, {game.graph.edges:,} edges; {rules},"
        f" {show_words(game.red)} of red pebbles"
    )
