"""Finds tables of patchworks for causal work on few devices a KV head, and shows what those that are kept send.

    .venv/bin/python studies/many-devices-planned/patches.py            the kept tables, beside the bound
    .venv/bin/python studies/many-devices-planned/patches.py 32/8-8-b   anneals one again, for as long as it took

The annealing is in patches.c and needs a C compiler. It ends by the clock, so another run finds another table, of about
as many words. Tables that it found are in src/attenio/cluster/patches/tables.json.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attenio.cluster.patches import Patchwork, plan_patches, tables
from attenio.workload import Workload

HERE = Path(__file__).parent
N, D = 2**20, 128
# Words of a row and of a key on their way and back, in units of d, forward in halves: that is a key and its value.
WORDS = {"f": (0.5, 0.5, 1, 0), "b": (2, 1, 2, 2)}


@dataclass(frozen=True)
class Recipe:
    """A table: heads, KV heads, devices and blocks, the limit of what a device sends, and how it is annealed."""

    heads: int
    kv_heads: int
    devices: int
    blocks: int
    direction: str
    limit: float
    anneal: tuple[float, ...]  # seconds, seed, excess, balance at first and last, heat at first and last
    own_rows: bool = False

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.heads}/{self.kv_heads}-{self.devices}-{self.direction}"


RECIPES = (
    Recipe(8, 8, 8, 16, "f", 26.5, (40, 3, 6, 0.3, 2, 1, 0.08)),
    Recipe(8, 8, 8, 16, "b", 91, (40, 3, 6, 1, 7, 3, 0.25)),
    Recipe(32, 8, 8, 16, "f", 52, (30, 1, 1, 0.1, 1.5, 2, 0.06)),
    Recipe(32, 8, 8, 16, "b", 187, (40, 13, 8, 3, 12, 4, 0.3)),
    Recipe(64, 8, 8, 16, "f", 66, (30, 1, 1, 0.1, 1.5, 3, 0.08), own_rows=True),
    Recipe(64, 8, 8, 16, "b", 238, (40, 8, 1.5, 0.2, 5, 8, 0.2), own_rows=True),
    Recipe(8, 8, 16, 16, "f", 18, (50, 5, 1.5, 0.15, 1.5, 2, 0.06)),
    Recipe(8, 8, 16, 16, "b", 63, (50, 5, 1.5, 0.5, 5, 7, 0.2)),
    Recipe(32, 8, 16, 16, "f", 30, (50, 5, 1, 0.15, 1.5, 3, 0.06), own_rows=True),
    Recipe(32, 8, 16, 16, "b", 100, (50, 6, 1.5, 0.5, 5, 8, 0.25)),
    Recipe(64, 8, 16, 16, "f", 45, (50, 5, 1, 0.1, 1.5, 4, 0.06), own_rows=True),
    Recipe(64, 8, 16, 16, "b", 170, (50, 5, 1, 0.3, 5, 12, 0.25), own_rows=True),
)


def annealed(recipe: Recipe) -> Patchwork:
    """A table by its recipe, which ends by the clock: kept tables were refined further, and do not come out again."""
    with tempfile.TemporaryDirectory() as folder:
        program, found = Path(folder) / "patches", Path(folder) / "found.txt"
        subprocess.run(["cc", "-O3", "-march=native", "-o", program, HERE / "patches.c", "-lm"], check=True)
        group = recipe.heads // recipe.kv_heads
        row_out, row_back, *keys = WORDS[recipe.direction]
        numbers = (recipe.devices, recipe.kv_heads, 1, recipe.blocks, group * row_out, group * row_back, *keys)
        asked = [str(each) for each in (*numbers, *recipe.anneal, 0, 0)]
        rows = {"ROWS": "1"} if recipe.own_rows else {}
        subprocess.run([program, *asked, found], check=True, env={**os.environ, **rows, "TARGET": str(recipe.limit)})
        return table_of(found.read_text(encoding="ascii"))


def table_of(text: str) -> Patchwork:
    """A table from what the annealing writes: sizes, owners of blocks, makers head by head and row by row."""
    numbers = [int(each) for each in text.split()]
    (_, heads, _, blocks), rest = numbers[:4], numbers[4:]
    makers = np.array(rest[blocks:]).reshape(heads, -1)
    return Patchwork(owners=tuple(rest[:blocks]), makers=tuple(tuple(each) for each in makers.tolist()))


def finer(table: Patchwork) -> Patchwork:
    """The same with two blocks for each, so that keys are passed on in smaller parts."""
    blocks, rows, keys = 2 * table.blocks, *np.tril_indices(2 * table.blocks)
    makers = []
    for each in table.makers:
        whole = np.zeros((table.blocks, table.blocks), dtype=np.int64)
        whole[np.tril_indices(table.blocks)] = each
        makers.append(tuple(whole[rows // 2, keys // 2].tolist()))
    return Patchwork(owners=tuple(table.owners[block // 2] for block in range(blocks)), makers=tuple(makers))


def show(recipe: Recipe, found: list[Patchwork]) -> None:
    """The best of some tables for the workload of a recipe."""
    direction = "forward" if recipe.direction == "f" else "backward"
    workload = Workload(
        n=N, d=D, heads=recipe.heads, kv_heads=recipe.kv_heads, mask="causal", direction=direction, dtype="bf16"
    )
    plan = min((plan_patches(workload, each) for each in found), key=lambda plan: plan.words_per_device)
    mean = plan.total_words / recipe.devices
    print(
        f"{recipe.name:10} {plan.patchwork}: {plan.words_per_device:,} words, {mean:,.0f} on the average,"
        f" {plan.gap:.3f} times the bound, work {float(plan.imbalance):.4f}"
    )


def main() -> None:
    for recipe in RECIPES:
        if not sys.argv[1:]:
            kept = [each for each in tables() if (each.devices, each.heads) == (recipe.devices, recipe.kv_heads)]
            show(recipe, kept)
        elif recipe.name in sys.argv[1:]:
            table = annealed(recipe)
            show(recipe, [table, finer(table)])


if __name__ == "__main__":
    main()
