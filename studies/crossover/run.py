"""At which fast memory do schedules that keep queries overtake those that write scores?

    .venv/bin/python studies/crossover/run.py

counts exact words for both kinds at every size of fast memory near the crossing, for d = 32 ... 256, and writes
results.json beside this file.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
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

Words = Callable[[int], float]


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


def crossing(large: Words, small: Words, least: int, most: int) -> tuple[int, int]:
    """The first memory with which ``large`` moves no more, and the last with which it moves more.

    Ceilings make both curves uneven, so the sign may change several times: coarse steps find where it may change, and
    in between every memory is tried.
    """
    step = max(1, (most - least) // 400)
    signs = {words: large(words) <= small(words) for words in range(least, most + 1, step)}
    early = min(words for words, wins in signs.items() if wins)
    late = max(words for words, wins in signs.items() if not wins)
    for words in range(max(least, early - step), min(late + step, most) + 1):
        signs[words] = large(words) <= small(words)
    return min(words for words, wins in signs.items() if wins), max(words for words, wins in signs.items() if not wins)


def crossovers(n: int, mask: str, widths: list[int]) -> list[dict[str, object]]:
    rows = []
    for d in widths:
        workload = Workload(n=n, d=d, mask=mask)
        large = partial(fewest, workload, LARGE)
        best_small, published = partial(fewest, workload, SMALL), partial(square_as_published, workload)
        square = d * d
        first, last = crossing(large, best_small, max(square // 3, 3 * d + 4), 6 * square // 5)
        early, late = crossing(large, published, max(square // 12, 3 * d + 4), square // 2)
        rows.append(
            {
                "n": n,
                "mask": mask,
                "d": d,
                "first_words": first,
                "last_words": last + 1,
                "over_d_squared": [round(first / square, 4), round((last + 1) / square, 4)],
                "published_square_first_words": early,
                "published_square_last_words": late + 1,
                "published_square_over_d_squared": [round(early / square, 4), round((late + 1) / square, 4)],
                "words_there": large(last + 1),
                "theorem_words": square,
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
