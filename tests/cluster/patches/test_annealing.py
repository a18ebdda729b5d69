"""The annealing of tables: a recipe gives the table that is kept, to the byte."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from attenio.cluster.patches.tables import packed
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
