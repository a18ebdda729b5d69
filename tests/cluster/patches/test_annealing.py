"""The annealing of tables: a recipe gives the table that is kept, to the byte."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from attenio.cluster.patches.layout import holdings
from attenio.cluster.patches.tables import packed, tables
from test_studies import module_of

STUDY = Path(__file__).parents[3] / "studies" / "many-devices-planned" / "patches.py"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_recipe_gives_the_table_that_is_kept_to_the_byte() -> None:
    pytest.importorskip("scipy")
    study = module_of(STUDY)
    kept = json.loads(files("attenio.cluster.patches").joinpath("tables.json").read_text(encoding="utf-8"))
    assert len(kept) == study.WITHOUT_RECIPE + len(study.RECIPES)
    recipe = study.RECIPES[0]
    assert packed(study.annealed(recipe), recipe.cut) == kept[study.WITHOUT_RECIPE]


def test_a_mirror_image_exchanges_rows_and_keys() -> None:
    pytest.importorskip("scipy")
    study, table = module_of(STUDY), tables()[0]
    image, tokens = study.mirrored(table), 8 * table.blocks
    assert study.mirrored(image) == table and image.pairs(tokens) == table.pairs(tokens)
    for rank in range(table.devices):
        for mine, its in zip(table.held(tokens, rank), image.held(tokens, rank), strict=True):
            assert (len(its.rows), len(its.keys)) == (len(mine.keys), len(mine.rows))


@pytest.mark.parametrize(("devices", "blocks", "text"), [(8, 64, "clusters 2*2"), (16, 64, "clusters 3*2 2:1 2")])
def test_clusters_share_their_late_rows_and_all_other_rows_are_at_home(devices: int, blocks: int, text: str) -> None:
    pytest.importorskip("scipy")
    study = module_of(STUDY)
    table, sizes = study.clustered(devices, blocks, text), study.sizes_of(text)
    rows, first, rank = holdings(table).rows[:, 0], blocks, 0
    for size, moved in sizes:
        members, late = range(rank, rank + size), range(first - size * blocks // devices // 2, first)
        assert rows[members][:, late].all() and not np.delete(rows[:, late], members, axis=0).any()
        assert [table.owners[row] for row in late[:moved]] == [members[-1]] * moved
        first, rank = late[0], members[-1] + 1
    for row in range(first):
        assert np.flatnonzero(rows[:, row]).tolist() == [table.owners[row]]
    work = table.pairs(64 * blocks)
    assert max(work) < 1.04 * sum(work) / devices
