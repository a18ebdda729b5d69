"""Finds tables of patchworks for causal work on few devices a KV head, and shows what those that are kept send.

    .venv/bin/python studies/many-devices-planned/patches.py            the kept tables, beside the bound
    .venv/bin/python studies/many-devices-planned/patches.py 1/1-8-f    anneals one again, by its recipe
    .venv/bin/python studies/many-devices-planned/patches.py --keep     anneals all again, and keeps them

The annealing is in patches.c, in whole numbers and by a count of moves, and needs a C compiler: a recipe gives the same
table, to the byte. Tables are in src/attenio/cluster/patches/tables.json. The first eleven there, of 8 and 16 devices
with 8 KV heads, are of an earlier annealing that ended by the clock; they have no recipe.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from attenio.cluster.patches import Patchwork, plan_patches, tables
from attenio.cluster.patches.halves import halves
from attenio.cluster.patches.layout import holdings
from attenio.cluster.patches.tables import packed, unpacked
from attenio.cluster.spans import Tokens
from attenio.cluster.strips import best_strips
from attenio.files import write_atomically
from attenio.workload import Workload

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "src" / "attenio" / "cluster" / "patches" / "tables.json"
N, D = 2**20, 128
WITHOUT_RECIPE = 11
# Words of a row and of a key on their way and back, in units of d.
WORDS = {"f": (1, 1, 2, 0), "b": (2, 1, 2, 2)}
BEGINNINGS = {"heads": 0, "rows": 1}  # 2 for all that begin with a table


@dataclass(frozen=True)
class Stage:
    """One annealing: blocks, limit of what a device sends, excess, balance, heat at first, moves and seed.

    It begins with pairs by heads, with own rows, with planned strips, with the mirror image of these (strips of keys
    with all rows after them), with halves of heads, so many of these by rows, with late rows in clusters, with a table
    that is kept, or with that of the stage before.
    """

    blocks: int
    limit: int
    excess: int
    balance: tuple[int, int]
    heat: int
    thousand_moves: int
    seed: int
    begin: str
    direction: str = ""  # whose words are counted, where that is not the recipe's pass
    passes_rows: bool = False  # whether the limit knows that rows can be passed on
    cold: int = 2  # heat at last
    low: int = 0  # what a device could send at least, with all that it can pass on; homes stay then


@dataclass(frozen=True)
class Recipe:
    """A table: heads, KV heads and devices, a pass, its stages, and into how many its blocks are cut."""

    heads: int
    kv_heads: int
    devices: int
    direction: str
    cut: int
    stages: tuple[Stage, ...]

    @property
    def name(self) -> str:
        """How it is asked for."""
        return f"{self.heads}/{self.kv_heads}-{self.devices}-{self.direction}"

    @property
    def workload(self) -> Workload:
        """What it is for."""
        direction = "forward" if self.direction == "f" else "backward"
        return Workload(
            n=N, d=D, heads=self.heads, kv_heads=self.kv_heads, mask="causal", direction=direction, dtype="bf16"
        )


RECIPES = (
    Recipe(1, 1, 8, "f", 8, (Stage(16, 10, 32, (4, 60), 10, 5000, 1, "heads"),)),
    Recipe(1, 1, 16, "f", 8, (
        Stage(16, 9, 16, (4, 60), 6, 4000, 11, "rows"), Stage(32, 17, 32, (4, 60), 3, 8000, 11, "before"),
    )),
    Recipe(8, 8, 32, "f", 8, (
        Stage(32, 86, 32, (8, 120), 10, 100000, 22, "strips", "b", passes_rows=True, cold=1),
        Stage(32, 49, 32, (30, 100), 1, 30000, 1, "before", passes_rows=True, cold=1),
    )),
    Recipe(8, 8, 64, "f", 5, (Stage(64, 69, 32, (4, 60), 2, 24000, 32, "strips"),)),
    Recipe(32, 8, 32, "f", 4, (Stage(32, 95, 64, (8, 120), 7, 30000, 1, "strips"),)),
    Recipe(32, 8, 32, "b", 4, (Stage(32, 168, 64, (8, 120), 7, 30000, 1, "strips"),)),
    Recipe(32, 8, 64, "f", 5, (
        Stage(64, 238, 80, (8, 120), 5, 30000, 1, "strips", "b"), Stage(64, 136, 48, (8, 120), 3, 15000, 41, "before"),
        Stage(64, 135, 48, (8, 120), 2, 12000, 51, "before"),
    )),
    Recipe(32, 8, 64, "b", 1, (Stage(64, 238, 80, (8, 120), 5, 30000, 1, "strips"),)),
    Recipe(64, 8, 8, "f", 8, (
        Stage(16, 124, 32, (4, 60), 28, 4000, 1, "rows"), Stage(32, 249, 48, (4, 80), 7, 8000, 1, "before"),
    )),
    Recipe(64, 8, 16, "b", 4, (Stage(64, 740, 128, (4, 80), 6, 12000, 3, "table 10", passes_rows=True),)),
    Recipe(64, 8, 32, "f", 4, (
        Stage(32, 133, 32, (4, 60), 28, 4000, 1, "rows"), Stage(64, 266, 48, (4, 80), 7, 8000, 1, "before"),
    )),
    Recipe(64, 8, 32, "b", 4, (Stage(32, 224, 32, (4, 60), 14, 4000, 1, "strips"),)),
    Recipe(1, 1, 8, "b", 8, (Stage(16, 16, 32, (4, 60), 20, 5000, 1, "heads", passes_rows=True),)),
    Recipe(1, 1, 16, "b", 8, (
        Stage(16, 13, 16, (4, 60), 20, 4000, 11, "rows", passes_rows=True),
        Stage(32, 26, 32, (4, 60), 6, 8000, 11, "before", passes_rows=True),
    )),
    Recipe(8, 8, 64, "b", 4, (Stage(64, 121, 32, (8, 200), 4, 24000, 1, "columns"),)),
    Recipe(16, 1, 32, "f", 4, (
        Stage(32, 41, 32, (8, 200), 28, 4000, 1, "rows"), Stage(64, 82, 48, (16, 600), 10, 12000, 1, "before"),
    )),
    Recipe(16, 1, 32, "b", 4, (
        Stage(32, 73, 32, (12, 300), 60, 8000, 1, "rows"), Stage(64, 146, 48, (16, 600), 14, 24000, 1, "before"),
    )),
    Recipe(32, 8, 8, "b", 4, (
        Stage(32, 364, 256, (4, 120), 14, 16000, 5, "table 3", passes_rows=True),
        Stage(64, 730, 256, (4, 200), 6, 16000, 5, "before", passes_rows=True),
    )),
    Recipe(8, 8, 16, "b", 12, (
        Stage(32, 121, 48, (4, 100), 4, 200000, 11, "halves 0", passes_rows=True, cold=1),
        Stage(32, 124, 15, (30, 100), 2, 12000, 1, "before", passes_rows=True, cold=1, low=122),
    )),
    Recipe(64, 8, 64, "f", 4, (Stage(64, 198, 32, (8, 200), 12, 80000, 4, "strips"),)),
    Recipe(64, 8, 64, "b", 4, (Stage(64, 325, 48, (8, 200), 28, 20000, 1, "strips", passes_rows=True),)),
    Recipe(32, 32, 64, "b", 1, (Stage(64, 0, 0, (8, 8), 2, 0, 1, "columns"),)),
    Recipe(8, 8, 32, "b", 8, (
        Stage(32, 86, 32, (8, 120), 10, 100000, 22, "strips", passes_rows=True, cold=1),
    )),
    Recipe(16, 1, 16, "b", 4, (Stage(128, 347, 64, (4, 4), 2, 8000, 1, "clusters 2:2 2:4", passes_rows=True),)),
    Recipe(16, 1, 64, "f", 2, (Stage(128, 138, 32, (8, 200), 2, 6000, 1, "clusters 3*4 2*20"),)),
)  # fmt: skip


def annealed(recipe: Recipe) -> Patchwork:
    """A table by its recipe."""
    with tempfile.TemporaryDirectory() as folder:
        program, found, start = (Path(folder) / name for name in ("patches", "found.txt", "start.txt"))
        subprocess.run(["cc", "-O2", "-o", program, HERE / "patches.c", "-lm"], check=True)
        group = recipe.heads // recipe.kv_heads
        for stage in recipe.stages:
            direction = stage.direction or recipe.direction
            row_out, row_back, *keys = WORDS[direction]
            if stage.begin in ("strips", "columns"):
                planned = replace(recipe, direction="f" if stage.begin == "columns" else direction)
                strips = table_of_strips(planned, stage.blocks)
                start.write_text(text_of(mirrored(strips) if stage.begin == "columns" else strips), encoding="ascii")
            elif stage.begin.startswith("halves "):
                table = halves(recipe.kv_heads, int(stage.begin.split()[1]))
                start.write_text(text_of(table), encoding="ascii")
            elif stage.begin.startswith("clusters "):
                start.write_text(text_of(clustered(recipe.devices, stage.blocks, stage.begin)), encoding="ascii")
            elif stage.begin.startswith("table "):
                kept = json.loads(KEPT.read_text(encoding="utf-8"))[int(stage.begin.split()[1])]
                start.write_text(text_of(unpacked(kept)), encoding="ascii")
            numbers = (
                recipe.devices, recipe.kv_heads, stage.blocks, group * row_out, group * row_back, *keys, stage.limit,
                stage.low, stage.excess, *stage.balance, stage.heat, stage.cold, stage.thousand_moves, stage.seed,
                6 if stage.passes_rows else 2, BEGINNINGS.get(stage.begin, 2),
            )  # fmt: skip
            subprocess.run([program, *map(str, numbers), found, start], check=True)
            start.write_bytes(found.read_bytes())
        return table_of(found.read_text(encoding="ascii"))


def table_of(text: str) -> Patchwork:
    """A table from what the annealing writes: sizes, owners of blocks, makers head by head and row by row."""
    (_, heads, blocks), rest = (numbers := [int(each) for each in text.split()])[:3], numbers[3:]
    makers = np.array(rest[blocks:]).reshape(heads, -1)
    return Patchwork(owners=tuple(rest[:blocks]), makers=tuple(tuple(each) for each in makers.tolist()))


def text_of(table: Patchwork) -> str:
    """The same for the annealing to begin with."""
    lines = ((table.devices, table.heads, table.blocks), table.owners, *table.makers)
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def table_of_strips(recipe: Recipe, blocks: int) -> Patchwork:
    """The best strips on so many blocks: a pair of blocks is of the place that has most of it."""
    plan = best_strips(recipe.workload, recipe.devices)
    assert plan is not None
    strips, tokens, each = plan.strips, 64 * blocks, blocks // recipe.devices
    rows, keys = (
        np.array([in_blocks(getattr(product, name), blocks) for product in strips.products(tokens)])
        for name in ("rows", "keys")
    )
    homes = np.array([in_blocks(home, blocks) for home in strips.homes(tokens)])
    slots, chosen = linear_sum_assignment(-np.repeat(homes, each, axis=0))
    owners = np.zeros(blocks, dtype=np.int64)
    owners[chosen] = slots // each
    i, j = np.tril_indices(blocks)
    places = np.argmax(rows[:, i] * keys[:, j], axis=0) * strips.heads
    groups = (head * strips.heads // recipe.kv_heads for head in range(recipe.kv_heads))
    return Patchwork(owners=tuple(owners.tolist()), makers=tuple(tuple((places + group).tolist()) for group in groups))


def mirrored(table: Patchwork) -> Patchwork:
    """The same with first and last tokens, rows and keys exchanged."""
    last, (i, j) = table.blocks - 1, np.tril_indices(table.blocks)
    makers = tuple(tuple(each[last - j, last - i].tolist()) for each in holdings(table).makers)
    return Patchwork(owners=table.owners[::-1], makers=makers)


def clustered(devices: int, blocks: int, text: str) -> Patchwork:
    """Clusters of devices that share late rows of one KV head; all others compute own rows, an early and a late part.

    The first cluster has the last rows, as many as half of its tokens, and owns as many of the first tokens; the next
    one follows. All of its devices have all of its late rows, the first device with the last keys. Early rows are at
    home. "clusters 3*4 2:1" is four clusters of three devices and one of two, whose last device owns one block of its
    late rows, and the first one an early block in its place.
    """
    each, share = blocks // devices, blocks * blocks // devices
    owners, makers = np.full(blocks, -1), np.full((blocks, blocks), -1)
    clusters, rank, used = [], 0, 0
    for size, moved in sizes_of(text):
        late, early = (range(first, first + size * each // 2) for first in (blocks - used - size * each // 2, used))
        members = range(rank, rank + size)
        owners[[*reversed(late), *early]] = np.repeat(members, each)
        owners[late[:moved]], owners[early[:moved]] = members[-1], members[0]
        clusters.append((members, late, early))
        rank, used = rank + size, used + len(late)
    middle = np.flatnonzero(owners < 0)
    half = np.repeat(np.arange(rank, devices), each // 2)
    owners[middle] = np.concatenate([half, half[::-1]])
    makers[:] = owners[:, None]
    for members, late, early in clusters:
        work = {rank: sum(2 * row + 1 for row in early if owners[row] == rank) for rank in members}
        left = list(members)
        cells = sorted(((key, row) for row in late for key in range(row + 1)), reverse=True)
        for key, row in cells:
            pairs = 2 - (row == key)
            while len(left) > 1 and work[left[0]] + pairs > share:
                left.pop(0)
            makers[row, key] = left[0]
            work[left[0]] += pairs
    return Patchwork(owners=tuple(owners.tolist()), makers=(tuple(makers[np.tril_indices(blocks)].tolist()),))


def sizes_of(text: str) -> list[tuple[int, int]]:
    """Devices of every cluster, and blocks of late rows that its last one owns."""
    found = []
    for word in text.split()[1:]:
        cluster, _, times = word.partition("*")
        size, _, moved = cluster.partition(":")
        found += [(int(size), int(moved or 0))] * int(times or 1)
    return found


def in_blocks(tokens: Tokens, blocks: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """How many tokens of every block are in a set."""
    chosen = np.zeros(64 * blocks, dtype=np.int64)
    for start, stop in tokens.spans:
        chosen[start:stop] = 1
    return np.asarray(chosen.reshape(blocks, 64).sum(axis=1))


def show(recipe: Recipe, found: list[Patchwork]) -> None:
    """The best of some tables for the workload of a recipe."""
    plan = min((plan_patches(recipe.workload, each) for each in found), key=lambda plan: plan.words_per_device)
    mean = plan.total_words / recipe.devices
    print(
        f"{recipe.name:10} {plan.patchwork}: {plan.words_per_device:,} words, {mean:,.0f} on the average,"
        f" {plan.gap:.3f} times the bound, work {float(plan.imbalance):.4f}",
        flush=True,
    )


def main() -> None:
    asked = [each for each in sys.argv[1:] if each != "--keep"]
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[:WITHOUT_RECIPE]
    for recipe in RECIPES:
        if "--keep" in sys.argv or recipe.name in asked:
            table = annealed(recipe)
            kept.append(packed(table, recipe.cut))
            show(recipe, [table, table.finer(recipe.cut)])
            holdings.cache_clear()
        elif not asked:
            show(recipe, [e for e in tables() if (e.devices, e.heads) == (recipe.devices, recipe.kv_heads)])
    if "--keep" in sys.argv:
        lines = (json.dumps(each, separators=(",", ":")) for each in kept)
        write_atomically(KEPT, "[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
