"""The annealing of tables: a recipe gives the table that is kept, to the byte."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

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
