"""Games of whole rows, solved exactly beside plans and bounds, and what is said of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.measurement.provenance import provenance
from attenio.pebbling.row_games import AttentionGame, GradientGame
from attenio.planning import best_plan_for
from attenio.workload import Workload

__all__ = ["row_table", "row_text", "solve_whole_rows"]

Row = dict[str, Any]
# Memories of a shape, from a row and a key up to where everything stays.
POINTS = 8
# Words beside rows and keys: a score and its maximum; backward a score, its gradient and a word of the output.
IN_HAND = {"forward": 2, "backward": 3}


@dataclass(frozen=True)
class RowQuestion:
    """One game: heads of a group over the same keys, a mask, widths, words of fast memory."""

    direction: str
    rows: int
    keys: int
    d: int
    value_dim: int
    mask: str = "dense"
    group: int = 1
    fast_words: int = 0

    @property
    def workload(self) -> Workload:
        heads = {"heads": self.group, "kv_heads": 1, "mask": self.mask, "direction": self.direction}
        return Workload(queries=self.rows, keys=self.keys, d=self.d, value_dim=self.value_dim, dtype="fp32", **heads)

    @property
    def optimum(self) -> int | None:
        (pattern, _), *_ = self.workload.separate_patterns
        of_head = [sum(1 << j for j in pattern.needed_keys(i, i + 1).tolist()) for i in range(pattern.rows)]
        game = AttentionGame if self.direction == "forward" else GradientGame
        free = self.fast_words - IN_HAND[self.direction]
        return game(needed=(*of_head,) * self.group, fast_words=free, d=self.d, value_dim=self.value_dim).optimum()

    def memories(self) -> Iterator["RowQuestion"]:
        """The same with several sizes of fast memory."""
        both, beside = self.d + self.value_dim, IN_HAND[self.direction]
        forward = self.direction == "forward"
        row, key = (both + 2, both) if forward else (both + self.d + 2, 2 * both)
        least = both + 2 + both + beside + (0 if forward else max(self.d, both))
        most = self.group * self.rows * row + self.keys * key + beside
        for fast_words in range(least, most + 1, max(1, (most - least) // POINTS)):
            yield RowQuestion(**{**asdict(self), "fast_words": fast_words})


SHAPES = [
    *(RowQuestion("forward", rows, keys, 8, 8) for rows, keys in ((2, 4), (4, 2), (3, 3), (4, 3), (3, 4), (4, 4))),
    *(RowQuestion("forward", 3, 3, d, dv) for d, dv in ((4, 8), (4, 12), (8, 4))),
    *(RowQuestion("forward", n, n, 8, 8, f"window:{width}") for n, width in ((5, 2), (5, 3), (6, 2))),
    *(RowQuestion("forward", rows, keys, 8, 8, "causal") for rows, keys in ((3, 3), (4, 4), (2, 4))),
    *(RowQuestion("forward", rows, keys, 8, 8, group=group) for rows, keys, group in ((2, 3, 2), (1, 4, 2), (1, 3, 3))),
    *(RowQuestion("backward", rows, keys, 8, 8) for rows, keys in ((1, 4), (4, 1), (2, 2), (2, 3), (3, 2))),
    *(RowQuestion("backward", 2, 2, d, dv) for d, dv in ((4, 8), (8, 4))),
    *(RowQuestion("backward", n, n, 8, 8, mask) for n, mask in ((2, "causal"), (3, "window:2"), (3, "causal"))),
    RowQuestion("backward", 2, 3, 8, 8, "causal"),
    *(RowQuestion("backward", rows, 3, d, dv, "causal") for rows in (2, 3) for d, dv in ((5, 2), (2, 4))),
    *(RowQuestion("backward", 4, 4, d, dv, "window:2") for d, dv in ((5, 2), (2, 4))),
    *(RowQuestion("backward", rows, keys, d, dv) for rows, keys in ((1, 5), (5, 1)) for d, dv in ((8, 8), (5, 2))),
    *(RowQuestion("backward", rows, keys, 5, 2) for rows, keys in ((2, 3), (3, 2), (2, 4))),
    *(RowQuestion("backward", 1, keys, 8, 8, group=group) for keys, group in ((2, 2), (3, 2), (2, 3))),
]


def solve_whole_rows(known: Sequence[Row], keep: Callable[[list[Row]], None]) -> None:
    """Every game of the list; of those solved before, plans and bounds anew."""
    solved = {_question(row): row for row in known}
    for shape in SHAPES:
        for question in shape.memories():
            if question not in solved:
                found = {"optimum_words": question.optimum, "commit": provenance().commit}
                solved[question] = {**asdict(question), **found}
                keep(list(solved.values()))
    keep([{**row, **_compared(question, row["optimum_words"])} for question, row in solved.items()])


def _compared(question: RowQuestion, optimum: int | None) -> Row:
    bound = largest_ordinary(bounds_for(question.workload, question.fast_words))
    assert optimum is None or bound.words <= optimum, "a bound is above a schedule"
    found: Row = {"bound_words": bound.words, "theorem": bound.theorem, "plan_words": None, "dataflow": None}
    try:
        plan = best_plan_for(question.workload, question.fast_words)
    except DoesNotFit:
        return found
    return {**found, "plan_words": plan.moved_words, "dataflow": plan.dataflow.value}


def _question(row: Row) -> RowQuestion:
    return RowQuestion(**{name: row[name] for name in RowQuestion.__dataclass_fields__})


def _titled(row: Row) -> tuple[str, str, str]:
    """Which line of the table a game belongs to."""
    forms = [f"{row['group']} heads"] if row["group"] > 1 else []
    forms += [row["mask"]] if row["mask"] != "dense" or not forms else []
    return row["direction"], ", ".join(forms), f"{row['d']}, {row['value_dim']}"


def row_table(games: Sequence[Row]) -> list[str]:
    """How plans compare with optima, by direction, mask and widths."""
    titles = (
        "direction",
        "mask",
        "d, d_v",
        "games",
        "equal",
        "plan less",
        "plan more",
        "plan / optimum",
        "optimum / bound",
    )
    lines = [f"| {' | '.join(titles)} |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |"]
    settled = [row for row in games if row["optimum_words"] is not None and row["plan_words"] is not None]
    for title in dict.fromkeys(map(_titled, settled)):
        rows = [row for row in settled if _titled(row) == title]
        ratios = [row["plan_words"] / row["optimum_words"] for row in rows]
        above = [row["optimum_words"] / row["bound_words"] for row in rows]
        counts = [sum(r == 1 for r in ratios), sum(r < 1 for r in ratios), sum(r > 1 for r in ratios)]
        cells = [*title, len(rows), *counts, _range(ratios), _range(above)]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return lines


def row_text(games: Sequence[Row]) -> dict[str, str]:
    """What the text says about them."""
    settled = [row for row in games if row["optimum_words"] is not None and row["plan_words"] is not None]
    found = {"row_games": str(len(settled))}
    for direction in ("forward", "backward"):
        mine = [row for row in settled if row["direction"] == direction]
        beaten = [row for row in mine if row["plan_words"] > row["optimum_words"]]
        worst = max(row["plan_words"] / row["optimum_words"] for row in mine)
        found |= {f"{direction}_games": str(len(mine)), f"{direction}_beaten": str(len(beaten))}
        found[f"{direction}_worst"] = f"{worst:.2f}"
    backward = [row for row in settled if row["direction"] == "backward"]
    for title, mine in (
        ("dense", [row for row in backward if row["mask"] == "dense"]),
        ("masked", [row for row in backward if row["mask"] != "dense"]),
    ):
        found[title] = str(len(mine))
        found[f"{title}_worst"] = f"{max(row['plan_words'] / row['optimum_words'] for row in mine):.2f}"
        found[f"{title}_beaten"] = str(sum(row["plan_words"] > row["optimum_words"] for row in mine))
    alone = [row for row in settled if row["direction"] == "forward" and row["group"] == 1]
    shared = [row for row in settled if row["direction"] == "forward" and row["group"] > 1]
    found["shared"] = str(len(shared))
    found["shared_beaten"] = str(sum(row["plan_words"] > row["optimum_words"] for row in shared))
    found["alone"] = str(len(alone))
    found["alone_beaten"] = str(sum(row["plan_words"] > row["optimum_words"] for row in alone))
    return found


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"
