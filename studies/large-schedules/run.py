"""How good are the schedules that a general search finds, against the best made by hand, and what do large graphs take?

    .venv/bin/python studies/large-schedules/run.py [folder]

writes results.json and answer.md beside this file, or into the folder. Graphs of a million vertices run one
after the other, each in a process of its own so that its peak memory is its own.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from math import ceil, log2
from pathlib import Path

import numba
import numpy as np
from answer import write_answer

from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.pebbling import ComputationGraph, Game, Solution, Variant, check
from attenio.pebbling.graphs.attention import Head, attention
from attenio.pebbling.graphs.fft import fft
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.stencil import stencil
from attenio.pebbling.scheduling import find_schedule
from attenio.pebbling.scheduling.eviction import cost_of
from attenio.pebbling.scheduling.program import program_of
from attenio.planning import best_plan_for
from attenio.workload import Workload

HERE = Path(__file__).parent
SEED = 0
LIMIT_S = 60.0
RULES = [
    (Variant.STANDARD, False),
    (Variant.ONE_SHOT, False),
    (Variant.STANDARD, True),
    (Variant.PARTIAL, False),
]
SMALL: dict[str, tuple[Callable[[], ComputationGraph], list[int]]] = {
    "product 16 x 16 x 16": (lambda: product(16, 16, 16), [16, 64, 128]),
    "attention n=16 d=4": (lambda: attention(Head(rows=16, keys=16, d=4)), [16, 64, 128]),
    "attention n=32 d=8": (lambda: attention(Head(rows=32, keys=32, d=8)), [64, 256, 512]),
    "fft 1024": (lambda: fft(1024), [18, 34, 130]),
    "stencil 512 x 128 steps": (lambda: stencil(512, 128), [16, 64, 128]),
}
LARGE: dict[str, tuple[Callable[[], ComputationGraph], int]] = {
    "product 100 x 100 x 100": (lambda: product(100, 100, 100), 1000),
    "attention n=250 d=6": (lambda: attention(Head(rows=250, keys=250, d=6)), 1000),
    "fft 65536": (lambda: fft(65536), 1000),
    "stencil 100 x 100, 100 steps": (lambda: stencil(100, 100, dimensions=2), 1000),
}


def tiled_product(n: int, red: int) -> int:
    """The best product by tiles: a x b sums, a entries of one factor, one of the other, and a place for the result."""
    return min(
        n * n * (ceil(n / a) + ceil(n / b) + 1)
        for a in range(1, n + 1)
        for b in range(1, n + 1)
        if a * b + min(a, b) + 2 <= red
    )


def transform_in_passes(points: int, red: int) -> int:
    """Every pass loads and stores all points, and does as many levels as fit: both results beside both operands."""
    levels = int(log2(red - 2))
    return 2 * points * ceil(log2(points) / levels)


def by_hand(name: str, red: int) -> int | None:
    """Words of the best schedule known for what the graph computes; the search does not know."""
    sizes = [int(word) for word in name.replace("=", " ").split() if word.isdigit()]
    match name.split()[0]:
        case "product":
            return tiled_product(sizes[0], red)
        case "attention":
            return best_plan_for(Workload(n=sizes[0], d=sizes[1], dtype="fp32"), red).moved_words
        case "fft":
            return transform_in_passes(sizes[0], red)
        case _:
            return None


def row(name: str, solution: Solution) -> dict[str, object]:
    game = solution.game
    program = program_of(game)
    hand = by_hand(name, game.red)
    return {
        "graph": name,
        "vertices": len(game.graph),
        "red": game.red,
        "variant": game.variant.value,
        "sliding": game.sliding,
        "words": solution.cost_words,
        "by_hand_words": hand,
        "ratio": None if hand is None else round(solution.cost_words / hand, 3),
        "by_number_words": cost_of(program, np.arange(len(program.targets))),
        "compulsory_words": solution.lower_bound_words,
        "ending": solution.ending.value,
        "orders": solution.explored,
        "seconds": round(solution.seconds, 1),
    }


def small() -> Iterator[dict[str, object]]:
    for name, (build, reds) in SMALL.items():
        graph = build()
        for red in reds:
            for variant, sliding in RULES:
                game = Game(graph=graph, red=red, variant=variant, sliding=sliding)
                solution = find_schedule(game, seed=SEED, time_limit_s=LIMIT_S)
                verdict = check(game, solution.schedule)
                assert verdict.legal, verdict.complaint
                assert verdict.cost_words == solution.cost_words
                yield row(name, solution)


def peak_gb() -> float:
    """Peak resident memory of this process, as the system counts it."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, 2)


def large(name: str) -> dict[str, object]:
    """One large graph, in this process: build, search, check."""
    build, red = LARGE[name]
    begin = time.perf_counter()
    graph = build()
    built_s, built_gb = time.perf_counter() - begin, peak_gb()
    game = Game(graph=graph, red=red, variant=Variant.ONE_SHOT)
    solution = find_schedule(game, seed=SEED, time_limit_s=LIMIT_S)
    found_gb = peak_gb()
    program = program_of(game)
    begin, processor = time.perf_counter(), time.process_time()
    cost_of(program, np.arange(len(program.targets)))
    judged_s, judged_processor_s = time.perf_counter() - begin, time.process_time() - processor
    verdict = check(game, solution.schedule)
    assert verdict.legal, verdict.complaint
    return {
        **row(name, solution),
        "moves": len(solution.schedule),
        "build_seconds": round(built_s, 1),
        "judge_seconds": round(judged_s, 2),
        "judge_processor_seconds": round(judged_processor_s, 2),
        "peak_gb_with_graph_built": built_gb,
        "peak_gb_with_schedule": found_gb,
    }


def in_own_process(name: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def one_row_a_line(**tables: list[dict[str, object]]) -> str:
    parts = []
    for name, rows in tables.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(each) for each in rows) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def shown(rows: Iterator[dict[str, object]]) -> Iterator[dict[str, object]]:
    for each in rows:
        print(json.dumps(each), flush=True)
        yield each


def main(folder: Path) -> None:
    made_by = {
        **asdict(provenance()),
        "seed": SEED,
        "time_limit_s": LIMIT_S,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "cpus": os.cpu_count(),
    }
    smalls = list(shown(small()))
    larges = list(shown(in_own_process(name) for name in LARGE))
    write_atomically(folder / "results.json", one_row_a_line(provenance=[made_by], small=smalls, large=larges))
    write_answer(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(large(sys.argv[2])))
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
