"""A toy dataflow, a toy mask and a toy bound, added to a copy of the package as CONTRIBUTING says, keep the laws."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import attenio

SOURCE = Path(attenio.__file__).parent
MEMBER = '    STACKED_GROUPS = "stacked-groups"\n'
FORWARD = "Dataflow.FLASH_ATTENTION_2 | "
# A file, what it says, and what with the dataflow: the member, its words, its loop nest, and what mypy asks for.
DATAFLOW = [
    ("planning/plan.py", MEMBER, f'{MEMBER}    TOY = "toy"\n'),
    ("planning/plan.py", "    Dataflow.KEPT_ROWS,\n]", "    Dataflow.KEPT_ROWS,\n    Dataflow.TOY,\n]"),
    ("planning/words/dataflows.py", "    standard,\n)", "    standard,\n    toy,\n)"),
    ("planning/words/dataflows.py", "        case Dataflow.STANDARD:", "        case Dataflow.TOY:\n            return toy.forms\n        case Dataflow.STANDARD:"),  # noqa: E501
    ("planning/published.py", "        case Dataflow.RANK_ONE_TILING |", "        case Dataflow.TOY | Dataflow.RANK_ONE_TILING |"),  # noqa: E501
    ("dataflows/forward.py", "from attenio.dataflows.flash_attention_2 import flash_attention_2\n", "from attenio.dataflows.flash_attention_2 import flash_attention_2\nfrom attenio.dataflows.toy import toy\n"),  # noqa: E501
    ("dataflows/forward.py", "        case Dataflow.STANDARD:", "        case Dataflow.TOY:\n            toy(problem, plan.tiles, fast)\n        case Dataflow.STANDARD:"),  # noqa: E501
    ("dataflows/execute.py", FORWARD, f"{FORWARD}Dataflow.TOY | "),
    ("dataflows/host.py", FORWARD, f"{FORWARD}Dataflow.TOY | "),
    ("pebbling/replay/grouping.py", f"case {FORWARD}", f"case Dataflow.TOY | {FORWARD}"),
]  # fmt: skip
# A mask that sees from its own position onward: a value, its place among the masks, and its pattern.
MASK = [
    ("masks/values.py", "\nMask = BandMask | ", '\n@dataclass(frozen=True)\nclass Onward:\n    """From here on."""\n\n\nMask = Onward | BandMask | '),  # noqa: E501
    ("masks/patterns/of_mask.py", "        case BlockSparse():\n            return ", "        case Onward():\n            return ((Band(rows=queries, keys=keys, left=0, right=keys, shift=0), 1),)\n        case BlockSparse():\n            return "),  # noqa: E501
    ("masks/__init__.py", "    BandMask,\n", "    BandMask,\n    Onward,\n"),
    ("masks/patterns/of_mask.py", "    SlidingWindow,\n)", "    SlidingWindow,\n    Onward,\n)"),
]  # fmt: skip
BOUND = [
    ("bounds/attention.py", "from attenio.bounds.compulsory import compulsory\n", "from attenio.bounds.compulsory import compulsory\nfrom attenio.bounds.toy import toy\n"),  # noqa: E501
    ("bounds/attention.py", "                compulsory(workload),\n", "                compulsory(workload),\n                toy(workload),\n"),  # noqa: E501
]  # fmt: skip
FILES = {
    "planning/words/toy.py": """
from attenio.planning.words.form import Form, Held, RowTile

def forms(sizes):
    d, dv, w = sizes.d, sizes.value_dim, sizes.intermediate_words
    held = Held(per_score=w, per_row=d + (dv + 3) * w, per_key=d + dv)
    phase = RowTile("toy_rows", "toy_keys", held, live=d, loads=d + dv)
    return (Form(("toy_rows", "toy_keys"), (phase,), sizes.group * sizes.rows * dv),)
""",
    "dataflows/toy.py": """
from attenio.dataflows.flash_attention_2 import flash_attention_2
from attenio.planning.plan import Tiles

def toy(problem, tiles, fast):
    flash_attention_2(problem, Tiles.of(query_tile=tiles["toy_rows"], key_tile=tiles["toy_keys"]), fast)
""",
    "bounds/toy.py": """
from dataclasses import replace
from attenio.bounds.compulsory import compulsory

def toy(workload):
    whole = compulsory(workload)
    return replace(whole, theorem="toy", words=whole.words // 2)
""",
}
LAWS = """
import random
from attenio import Machine, Workload, best_plan, execute, lower_bounds
from attenio.bounds import bounds_for
from attenio.masks import Causal, Dense, Onward
from attenio.pebbling.replay.grouping import grouping
from attenio.planning import Dataflow, SweepGrid, best_plan_for, candidates_for, cost, sweep
from attenio.planning.plan import Tiles
from attenio.report import answer
from attenio.report.palette import stylesheet

rng, tried = random.Random(3), 0
for _ in range(25):
    mask = rng.choice([Dense(), Causal(), Onward()])
    n = rng.randint(1, 9)
    workload = Workload(n=n, d=rng.randint(1, 3), heads=2, kv_heads=rng.choice([1, 2]), mask=mask)
    if mask == Onward():
        assert workload.scores == 2 * n * (n + 1) // 2
    every = [cost(workload, "toy", Tiles.of(toy_rows=a, toy_keys=b)) for a in range(1, n + 1) for b in range(1, n + 1)]
    fast_words = min(each.peak_words for each in every) + rng.randint(0, 60)
    plan = best_plan_for(workload, fast_words, dataflow="toy")
    assert plan.moved_words == min(each.moved_words for each in every if each.peak_words <= fast_words)
    for candidate in candidates_for(workload, fast_words):
        if candidate.plan is not None:
            run = execute(candidate.plan)
            assert (run.moved_words, run.peak_words) == (candidate.plan.moved_words, candidate.plan.peak_words)
            assert run.max_abs_error < 0.01
            tried += candidate.dataflow is Dataflow.TOY
            for bound in bounds_for(workload, fast_words):
                assert bound.strength.value != "absolute" or bound.words <= run.moved_words
assert tried == 25
machine = Machine.with_fast_bytes(4096)
found = answer(Workload(n=300, d=8), machine)
assert "toy" in {each.dataflow.value for each in found.candidates} and "--toy:" in stylesheet()
assert "toy" in {bound.theorem for bound in found.lower_bounds}
grid = SweepGrid(n=[50], d=[4], masks=[Onward(), Dense()], fast_bytes=[2048])
for row, mask in zip(sweep(grid).rows(), (Onward(), Dense()), strict=True):
    asked = Workload(n=50, d=4, mask=mask)
    assert row["moved_words"] == best_plan(asked, Machine.with_fast_bytes(2048)).moved_words
print("kept")
"""


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1, f"{path.name} has no {old!r} any more: see CONTRIBUTING"
    path.write_text(text.replace(old, new))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "attenio"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_a_toy_dataflow_mask_and_bound_keep_the_laws(package: Path) -> None:
    for file, old, new in (*DATAFLOW, *MASK, *BOUND):
        changed(package / file, old, new)
    for file, text in FILES.items():
        (package / file).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run([sys.executable, "-c", LAWS], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "kept\n", done.stderr
