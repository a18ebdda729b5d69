"""``attenio pebble bound``: what no schedule can beat, read off the graph."""

from typing import TYPE_CHECKING, assert_never

from attenio.cli.options import AsJson, taking
from attenio.cli.output import plain_table, print_json, print_tables, progress_bar
from attenio.cli.pebble.position import GameChoice, time_limit_seconds
from attenio.cli.pebble.rendering import game_line, game_to_json
from attenio.cli.pebble.solve import TimeLimit
from attenio.plain_values import plain_fields
from attenio.quantities import show_seconds, show_words

if TYPE_CHECKING:
    from attenio.pebbling import ComputationGraph
    from attenio.pebbling.certified.bound import Witness


@taking(GameChoice)
def bound(choice: GameChoice, time_limit: TimeLimit = "30", as_json: AsJson = False) -> None:
    """Lower bounds computed from the graph, each with a witness that has been checked.

    The time limit is for finding and checking. What it cuts short is named, and every bound that is printed holds.

    \b
    Examples:
      attenio pebble bound --graph fft --points 64 --red 8
      attenio pebble bound --graph product --n 16 --red 64 --game one-shot --json
    """
    from attenio.pebbling.certified import certified_bounds

    game = choice.chosen_game()
    with progress_bar("cutting the graph") as progress:
        certified = certified_bounds(game, time_limit_s=time_limit_seconds(time_limit), progress=progress)
    bounds = certified.bounds
    shortened = [each.theorem.value for each in bounds if not each.finished]
    unchecked = [each.value for each in certified.unchecked]
    largest = max(each.words for each in bounds)
    if as_json:
        print_json(
            {
                **game_to_json(game),
                "lower_bound": largest,
                "bounds": [
                    {
                        **plain_fields(each, "theorem", "words", "citation", "seconds", "finished"),
                        "witness": _witness_line(each.witness, game.graph),
                    }
                    for each in bounds
                ],
                "unchecked": unchecked,
            }
        )
        return
    table = plain_table("theorem", ("words", "right"), "witness", "time")
    for each in bounds:
        table.add_row(
            each.theorem.value, f"{each.words:,}", _witness_line(each.witness, game.graph), show_seconds(each.seconds)
        )
    notes = []
    if shortened:
        notes.append(f"the time limit cut short: {', '.join(shortened)}; a longer one may prove more")
    if unchecked:
        notes.append(f"found but not checked in time, and left out: {', '.join(unchecked)}")
    print_tables(game_line(game), "", table, *notes, f"every schedule moves at least {show_words(largest)}")


def _witness_line(witness: "Witness", graph: "ComputationGraph") -> str:
    """The witness in words."""
    from attenio.pebbling.certified.bound import (
        CountingWitness,
        PairWitness,
        PartitionWitness,
        SpectralWitness,
        WavefrontWitness,
    )

    match witness:
        case None:
            return "inputs read once, outputs written once"
        case PartitionWitness():
            moved = "loads" if witness.loads_only else "words moved"
            return f"at least {witness.epochs:,} epochs of {witness.epoch_words:,} {moved}"
        case CountingWitness():
            return f"an epoch of {witness.epoch_words:,} loads computes at most {witness.later:,} values"
        case PairWitness():
            return f"{len(witness.pairs):,} products of two inputs, epochs of {show_words(witness.epoch_words)}"
        case WavefrontWitness():
            names = [graph.names[moment.vertex] for moment in witness.moments[:3]]
            more = "" if len(witness.moments) <= 3 else f" and {len(witness.moments) - 3:,} more"
            return f"what is alive when {', '.join(names)}{more} is computed" if names else "nothing need be alive"
        case SpectralWitness():
            return f"{witness.segments:,} segments, {len(witness.smallest):,} smallest eigenvalues"
        case _:
            assert_never(witness)
