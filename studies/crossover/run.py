"""At which fast memory do schedules that keep queries overtake those that write scores?

    .venv/bin/python studies/crossover/run.py

counts exact words of both kinds for d = 32 ... 256 and writes results.json beside this file.

Fewest words never grow with the memory, and those of the large-cache schedules fall only where one more row or key
fits. Between two such memories they are constant while the small-cache schedules may improve: whoever wins at both
ends of a stretch wins in all of it, so looking at the ends finds every change of sign. The published square tile is not
monotone; for it every memory is tried.
"""

import json
import platform
from dataclasses import asdict
from itertools import pairwise
from math import inf
from pathlib import Path

from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow, best_plan_for, published_plan_for
from attenio.workload import Workload

HERE = Path(__file__).parent
WIDTHS = list(range(32, 257, 16))
LARGE = (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_1)
SMALL = (Dataflow.RANK_ONE_TILING, Dataflow.SCORE_STATIONARY)


def fewest(workload: Workload, dataflows: tuple[Dataflow, ...], fast_words: int) -> float:
    """Words of the best of some dataflows, each with its best tiles."""
    found = [inf]
    for dataflow in dataflows:
        try:
            found.append(best_plan_for(workload, fast_words, dataflow=dataflow).moved_words)
        except DoesNotFit:
            continue
    return min(found)


def square_as_published(workload: Workload, fast_words: int) -> float:
    plan = published_plan_for(workload, fast_words, Dataflow.SQUARE_TILING)
    return inf if plan is None else plan.moved_words


def stretches(d: int, least: int, most: int) -> list[tuple[int, int]]:
    """Memories in stretches over which no more rows fit attenio, nor more keys flash-attention-1."""
    rows = range(d, most + 1, 2 * d + 4)
    keys = range(2 * d + 3, most + 1, 2 * d + 1)
    starts = sorted({least, *(words for words in (*rows, *keys) if words > least)})
    return [(start, stop - 1) for start, stop in pairwise([*starts, most + 1])]


def against_best(workload: Workload, least: int, most: int) -> tuple[int, int]:
    """The first memory with which keeping queries moves no more than the best tiles, and from which on it stays so."""
    wins: dict[int, bool] = {}
    for first, last in stretches(workload.d, least, most):
        large = fewest(workload, LARGE, first)
        wins |= {words: large <= fewest(workload, SMALL, words) for words in (first, last)}
    return _ends(wins)


def against_published(workload: Workload, least: int, most: int) -> tuple[int, int]:
    """The same against square tiling with its published tile."""
    wins: dict[int, bool] = {}
    for first, last in stretches(workload.d, least, most):
        large = fewest(workload, LARGE, first)
        wins |= {words: large <= square_as_published(workload, words) for words in range(first, last + 1)}
    return _ends(wins)


def _ends(wins: dict[int, bool]) -> tuple[int, int]:
    return min(words for words in wins if wins[words]), max(words for words in wins if not wins[words]) + 1


def extra_words(workload: Workload, fast_words: int) -> float:
    """The share of words wasted by still using small-cache schedules at this memory."""
    return fewest(workload, SMALL, fast_words) / fewest(workload, LARGE, fast_words) - 1


def crossovers(n: int, mask: str, widths: list[int]) -> list[dict[str, object]]:
    rows = []
    for d in widths:
        workload, square = Workload(n=n, d=d, mask=mask), d * d
        first, always = against_best(workload, max(square // 4, 3 * d + 4), 6 * square // 5)
        early, later = against_published(workload, max(square // 12, 3 * d + 4), square // 2)
        rows.append(
            {
                "n": n,
                "mask": mask,
                "d": d,
                "theorem_words": square,
                "first_words": first,
                "always_from_words": always,
                "over_d_squared": [round(words / square, 4) for words in (first, always)],
                "published_square_first_words": early,
                "published_square_always_from_words": later,
                "published_square_over_d_squared": [round(words / square, 4) for words in (early, later)],
                "moved_words_there": fewest(workload, LARGE, always),
                "extra_words_just_below_theorem": round(extra_words(workload, square - 1), 4),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    rows = crossovers(16384, "dense", WIDTHS)
    rows += crossovers(65536, "dense", [64, 128, 256])
    rows += crossovers(16384, "causal", [64, 128])
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    results = {"provenance": made_by, "rows": rows}
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
