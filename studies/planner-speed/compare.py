"""Is the planner of this tree as fast as that of another checkout, and do its plans never move more?

    .venv/bin/python studies/planner-speed/compare.py ../other-checkout

Both packages are loaded into one process and asked in turns, so that whatever else the machine does slows both; times
are those of the processor. comparison.json beside this file has ratios of the least times, this tree over the other,
and how many plans of each row move fewer words here. A plan that moves more stops the comparison. A sweep also counts
the lower bounds of its points, of which there are more than there were: ``plans_alone`` is the ratio without them.
"""

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from operator import le, lt
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any, NamedTuple

Shape = dict[str, Any]
Ask = Callable[["Tree", Shape], object]

HERE = Path(__file__).parent
PLANS, SWEEPS = 15, 25
LENGTHS = [2**k for k in (10, 14, 20, 26)]
KINDS: list[Shape] = [
    {"mask": "dense"},
    {"mask": "causal"},
    {"mask": "window:1024"},
    {"mask": "causal", "heads": 64, "kv_heads": 8},
    {"mask": "causal", "direction": "backward"},
    {"mask": "window:1024", "direction": "backward"},
]
FAST_WORDS = [2**15, 2**18, 25 * 2**20]
MANY = [round(2 ** (k / 4)) for k in range(40, 81)]
GRIDS: dict[str, Shape] = {
    "large memories": {"n": MANY, "fast_bytes": [round(2 ** (16 + k / 16)) for k in range(160)]},
    "small memories": {"n": MANY, "fast_bytes": [round(2 ** (11 + k / 16)) for k in range(96)]},
    "heads": {"n": MANY, "heads": [16, 128], "kv_heads": [1, 8, None], "fast_bytes": [2**k for k in range(16, 27)]},
    "gradients": {"n": MANY, "fast_bytes": [2**k for k in range(12, 25)], "direction": "backward"},
    "training steps": {"n": MANY, "fast_bytes": [2**k for k in range(12, 25)], "direction": "training"},
}


class Tree:
    """The package of one checkout; modules that another one has loaded are set aside."""

    def __init__(self, root: Path) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "attenio"]:
            del sys.modules[name]
        sys.path.insert(0, str(root / "src"))
        self.planning: ModuleType = importlib.import_module("attenio.planning")
        self.workload: ModuleType = importlib.import_module("attenio.workload")
        self.provenance: ModuleType = importlib.import_module("attenio.measurement.provenance")
        self.bound_seconds = 0.0
        self._time_bounds(importlib.import_module("attenio.planning.sweeping.run"))
        sys.path.pop(0)

    def _time_bounds(self, run: ModuleType) -> None:
        """Add up what the bounds of sweeps take."""
        count = run.largest_bounds

        def timed(*asked: object) -> object:
            start = time.process_time()
            bounds = count(*asked)
            self.bound_seconds += time.process_time() - start
            return bounds

        run.__dict__["largest_bounds"] = timed

    def plan(self, shape: Shape) -> Callable[[], object]:
        fast_words, kind = shape["fast_words"], {name: each for name, each in shape.items() if name != "fast_words"}
        workload = self.workload.Workload(**kind)
        return lambda: self.planning.best_plan_for(workload, fast_words)

    def sweep(self, shape: Shape) -> Callable[[], object]:
        grid = self.planning.SweepGrid(d=[64, 128], masks=["dense", "causal", "window:1024"], **shape)
        return lambda: self.planning.sweep(grid)


def words(answer: Any) -> list[int]:
    return answer.columns["moved_words"].tolist() if hasattr(answer, "columns") else [answer.moved_words]


class Compared(NamedTuple):
    """Ratios of the least times, with bounds and without, plans, and how many of these are better."""

    ratio: float
    plans_alone: float
    plans: int
    better: int


def compared(trees: tuple[Tree, Tree], way: str, shape: Shape, repeats: int) -> Compared:
    """The first tree over the second; every question is new."""
    least, alone, answers = [float("inf")] * 2, [float("inf")] * 2, [None, None]
    for turn in range(2 * repeats):
        which = (turn + turn // 2) % 2
        ask, trees[which].bound_seconds = getattr(trees[which], way)(shape), 0.0
        start = time.process_time()
        answers[which] = ask()
        seconds = time.process_time() - start
        least[which] = min(least[which], seconds)
        alone[which] = min(alone[which], seconds - trees[which].bound_seconds)
    here, there = map(words, answers)
    assert len(here) == len(there) and all(map(le, here, there)), f"more words: {shape}"
    return Compared(least[0] / least[1], alone[0] / alone[1], len(here), sum(map(lt, here, there)))


def comparisons(trees: tuple[Tree, Tree]) -> Iterator[tuple[str, list[Compared]]]:
    for kind in KINDS:
        shapes = [{"n": n, "d": d, "fast_words": w, **kind} for n in LENGTHS for d in (64, 256) for w in FAST_WORDS]
        yield " ".join(map(str, kind.values())), [compared(trees, "plan", shape, PLANS) for shape in shapes]
    for name, grid in GRIDS.items():
        yield f"sweep: {name}", [compared(trees, "sweep", grid, SWEEPS)]


def main() -> None:
    other = Path(sys.argv[1]).resolve() if len(sys.argv) == 2 else None
    if other is None or not (other / "src" / "attenio").is_dir():
        sys.exit("give the folder of another checkout of attenio, one with src/attenio")
    commit = subprocess.run(["git", "-C", other, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    trees = Tree(HERE.parents[1]), Tree(other)
    rows = []
    for name, each in comparisons(trees):
        times, alone, plans, better = zip(*each, strict=True)
        row = {"what": name, "ratio": geometric_mean(times), "least": min(times), "largest": max(times)}
        row |= {"plans_alone": geometric_mean(alone), "plans": sum(plans), "better": sum(better)}
        rows.append({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
        print(rows[-1], flush=True)
    made_by = {**asdict(trees[0].provenance.provenance()), "other_commit": commit.stdout.strip()}
    (HERE / "comparison.json").write_text(json.dumps({"provenance": made_by, "ratios": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
