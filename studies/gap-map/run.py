"""How far is the best plan from the strongest bound, over fast memories, lengths, widths, masks and directions?

    .venv/bin/python studies/gap-map/run.py [--as before]

plans every point of points.py and writes results.json (or before.json) beside this file, then answer.md and map.svg
from both. Finished points are kept in a file beside until all are done, so that a run that was stopped goes on. With
``--answer`` the answer is written anew from the results that are there.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from answer import answer
from picture import picture
from points import Point, points

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import best_plan_for
from attenio.planning.training import training_plan_for

HERE = Path(__file__).parent
Row = dict[str, Any]


def row(point: Point) -> Row:
    """Words of the best plan, its dataflows, and the strongest bound; no words where nothing fits."""
    workload, fast_words = point.workload, point.fast_words
    bounds = bounds_for(workload, fast_words)
    bound = largest_ordinary(bounds)
    whole = max((each.words for each in bounds if each.theorem == "row-passes"), default=None)
    about = {**asdict(point), "bound_words": bound.words, "theorem": bound.theorem, "row_passes_words": whole}
    try:
        if point.direction == "training":
            step = training_plan_for(workload, fast_words)
            names = f"{step.forward.dataflow.value}+{step.backward.dataflow.value}"
            return {**about, "moved_words": step.moved_words, "dataflow": names}
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return {**about, "moved_words": None, "dataflow": None}
    return {**about, "moved_words": plan.moved_words, "dataflow": plan.dataflow.value}


def rows(progress: Path) -> Iterator[Row]:
    """Every point, those of a run that was stopped first."""
    done = [json.loads(line) for line in progress.read_text().splitlines()] if progress.exists() else []
    yield from done
    with progress.open("a") as kept:
        for number, point in enumerate(points()):
            if number < len(done):
                continue
            found = row(point)
            kept.write(json.dumps(found) + "\n")
            kept.flush()
            if number % 500 == 499:
                print(f"{number + 1:,} points", flush=True)
            yield found


def write_answer() -> None:
    """The answer and the picture, from the results that are there."""
    results = json.loads((HERE / "results.json").read_text())
    write_atomically(HERE / "answer.md", answer(results))
    write_atomically(HERE / "map.svg", picture(results))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="name", choices=("results", "before"), default="results")
    parser.add_argument("--answer", action="store_true")
    asked = parser.parse_args()
    if not asked.answer:
        made_by = asdict(provenance())
        progress = HERE / f"{asked.name}.{made_by['commit']}.jsonl"
        found = list(rows(progress))
        names = list(found[0])
        table = ",\n".join(json.dumps([each[name] for name in names]) for each in found)
        head = f'"provenance": {json.dumps(made_by)},\n"columns": {json.dumps(names)}'
        write_atomically(HERE / f"{asked.name}.json", f'{{\n{head},\n"rows": [\n{table}\n]\n}}\n')
        progress.unlink()
    if (HERE / "results.json").exists():
        write_answer()


if __name__ == "__main__":
    main()
