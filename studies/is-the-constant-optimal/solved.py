"""The games that were solved, and what follows from them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from keeping import keeping_rows, keeps_rows

from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

Row = dict[str, Any]
# Softmax, accumulation, rules, sliding.
Form = tuple[str, str, str, bool]
Shape = tuple[int, int, int]
STANDARD: Form = ("unshifted", "chain", "standard", True)
PARTIAL: Form = ("unshifted", "wide", "partial", False)
ONLINE: Form = ("online", "chain", "standard", True)
STRICT: Form = ("unshifted", "chain", "standard", False)
GRADIENT: Form = ("gradient", "chain", "standard", True)  # of the output: there is no softmax to choose
FORMS = {"standard": STANDARD, "partial": PARTIAL, "online": ONLINE, "no sliding": STRICT}


class Solved:
    """The games of dense heads with values as wide as keys, forward, by form, shape and red pebbles."""

    def __init__(self, games: Sequence[Row]) -> None:
        plain = [game for game in games if not is_other(game)]
        self.games = {(form_of(game), shape_of(game), game["red"]): game for game in plain}
        self.shapes = sorted({shape for _, shape, _ in self.games}, key=lambda shape: (shape[2], shape[0], shape[1]))

    def of(self, form: Form, shape: Shape) -> dict[int, Row]:
        """Games by red pebbles, fewest first."""
        found = {red: game for (one, other, red), game in self.games.items() if (one, other) == (form, shape)}
        return dict(sorted(found.items()))

    def one_pass(self, form: Form, shape: Shape) -> int | None:
        """The fewest red pebbles with which nothing was found to move twice."""
        cheapest = (red for red, g in self.of(form, shape).items() if g["cost_words"] == g["compulsory_words"])
        return next(cheapest, None)

    def cost(self, form: Form, shape: Shape, red: int) -> int | None:
        """The optimum, where it is known: with more pebbles than one pass needs, the compulsory words."""
        game = self.games.get((form, shape, red))
        if game is not None:
            return game["cost_words"] if game["optimal"] else None
        enough = self.one_pass(form, shape)
        if enough is None or red < enough:
            return None
        return int(self.games[form, shape, enough]["compulsory_words"])

    def too_few(self, form: Form, shape: Shape) -> tuple[int, int] | None:
        """The most red pebbles proven too few for one pass, and the fewest keys at which that is proven.

        With more keys they are too few as well: who has a schedule for more keys has one for fewer, by leaving out
        what belongs to the others, and in it nothing moves more often.
        """
        rows, keys, d = shape
        proofs = [
            (red, -other[1])
            for (one, other, red), game in self.games.items()
            if one == form
            and (other[0], other[2]) == (rows, d)
            and other[1] <= keys
            and game["proven_words"] > game["compulsory_words"]
        ]
        return (max(proofs)[0], -max(proofs)[1]) if proofs else None


def is_other(game: Row) -> bool:
    """Whether a game is about a mask, other widths or the gradient."""
    return bool(game["value_dim"])


def form_of(game: Row) -> Form:
    return (game["softmax"], game["accumulation"], game["game"], game["sliding"])


def shape_of(game: Row) -> Shape:
    return (game["rows"], game["keys"], game["d"])


def least_words(solved: Solved, form: Form, shape: Shape) -> tuple[int, int]:
    """Between which two numbers of words the least memory for one pass lies; 0 where none is proven too few."""
    found, proof = solved.one_pass(form, shape), solved.too_few(form, shape)
    most = keeping_rows(shape[0], shape[2]) if found is None else found
    if form == STANDARD and keeps_rows(*shape):
        most = min(most, keeping_rows(shape[0], shape[2]))
    return (proof[0] + 1 if proof else 0), most


def one_pass(rows: int, d: int, dataflow: Dataflow) -> int:
    """The words with which a dataflow serves so many rows in one pass, many keys being there."""
    workload = Workload(queries=rows, keys=100 * rows, d=d, dtype="fp32")
    for fast_words in range(1, 10_000):
        try:
            if best_plan_for(workload, fast_words, dataflow=dataflow).moved_words == workload.compulsory_words:
                return fast_words
        except DoesNotFit:
            continue
    raise AssertionError("so few rows fit ten thousand words")


def constants(solved: Solved) -> list[Row]:
    """What a further key costs at a fixed memory, and the constant c that this amounts to in c·rows·keys·d²/M."""
    found = []
    for name, form in (("standard", STANDARD), ("partial", PARTIAL)):
        for rows, d in sorted({(shape[0], shape[2]) for shape in solved.shapes}):
            shapes = [shape for shape in solved.shapes if (shape[0], shape[2]) == (rows, d)]
            reds = sorted({red for (one, shape, red) in solved.games if one == form and shape in shapes})
            for red in reds:
                costs = {shape[1]: solved.cost(form, shape, red) for shape in shapes}
                known = [(keys, cost) for keys, cost in costs.items() if cost is not None]
                if len(known) < 3 or red > keeping_rows(rows, d):
                    continue
                steps = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(known)]
                found.append(
                    {"game": name, "rows": rows, "d": d, "red": red, "keys": [keys for keys, _ in known]}
                    | {"steps": steps, "constant": steps[-1] * red / rows / d**2}
                )
    return found


def against_each_other(solved: Solved, one: Form, other: Form) -> Row:
    """How often two forms cost the same, where both are solved and one of them moves something twice."""
    pairs = []
    for shape in solved.shapes:
        for red in sorted({red for (_, each, red) in solved.games if each == shape}):
            costs = solved.cost(one, shape, red), solved.cost(other, shape, red)
            compulsory = next(g for (_, each, _), g in solved.games.items() if each == shape)["compulsory_words"]
            if None not in costs and costs != (compulsory, compulsory):
                pairs.append(costs)
    return {
        "pairs": len(pairs),
        "equal": sum(first == second for first, second in pairs),
        "cheaper": sum(second < first for first, second in pairs),
        "dearer": sum(second > first for first, second in pairs),
    }
