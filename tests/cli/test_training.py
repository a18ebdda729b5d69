"""Laws of ``--direction`` on every command."""

from pathlib import Path
from typing import Any

import pytest

SMALL = ("--n", "96", "--d", "8", "--fast-bytes", "2KB")


@pytest.mark.parametrize("mask", ["dense", "causal", "window:7", "documents:40,56"])
def test_a_backward_run_moves_what_the_plan_says(attenio: Any, mask: str) -> None:
    planned = attenio("plan", *SMALL, "--mask", mask, "--direction", "backward", "--json").json
    done = attenio("run", *SMALL, "--mask", mask, "--direction", "backward", "--json").json
    assert done["moved_words"] == planned["plan"]["moved_words"]
    assert done["gap"] >= 1
    assert done["max_abs_error"] < 0.05


def test_a_training_run_moves_what_the_plan_says(attenio: Any) -> None:
    planned = attenio("plan", *SMALL, "--direction", "training", "--json").json
    done = attenio("run", *SMALL, "--direction", "training", "--json").json
    assert done["moved_words"] == planned["plan"]["moved_words"] == sum(p["moved_words"] for p in done["passes"])
    assert [p["direction"] for p in done["passes"]] == ["forward", "backward"]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_step_says_what_stays_in_fast_memory_between_its_passes(attenio: Any, command: str) -> None:
    said = attenio(
        command, "--n", "100", "--d", "8", "--fast-bytes", "8KB", "--direction", "training", "--mask", "causal"
    )
    line = " ".join(said.out.split())
    assert "move 3,200 and 5,600 words by themselves and 2,400 fewer together: 100 keys, 100 rows of values" in line


@pytest.mark.parametrize("command", ["plan", "run", "bounds"])
@pytest.mark.parametrize("direction", ["backward", "training"])
def test_every_table_can_be_printed(attenio: Any, command: str, direction: str) -> None:
    said = attenio(command, *SMALL, "--direction", direction)
    assert said.status == 0
    assert direction in said.out


@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
def test_the_page_shows_all_directions_together(attenio: Any, tmp_path: Path, direction: str) -> None:
    out = tmp_path / "page.html"
    assert attenio("report", *SMALL, "--direction", direction, "--out", out).status == 0
    page = out.read_text()
    assert "Forward, backward, and a training step" in page
    assert "training: bound, ordinary products" in page
    assert "no algorithm below" not in page


def test_a_trace_of_a_step_has_both_passes(attenio: Any, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    assert attenio("run", *SMALL, "--direction", "training", "--trace", out).status == 0
    text = out.read_text()
    assert '"dQ"' in text
    assert '"O"' in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("plan", "--direction", "training", "--dataflow", "attenio"), "one of two"),
        (("run", "--direction", "training", "--tiles", "query_tile=1"), "two"),
        (("plan", "--direction", "sideways"), "choose one of forward, backward, training"),
        (("plan", "--direction", "backward", "--dataflow", "attenio"), "attenio"),
        (("sweep", "--direction", "sideways"), "choose one of forward, backward, training"),
        (("reorder", "--mask", "causal"), "block"),
        (("reorder", "--mask", "strided:16", "--out", "order.txt"), ".npz"),
    ],
)
def test_a_mistake_gets_one_line(attenio: Any, options: tuple[str, ...], words: str) -> None:
    assert words in attenio(options[0], *SMALL, *options[1:]).mistake


@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
def test_an_order_is_written_and_counts_no_more_than_the_natural_one(
    attenio: Any, tmp_path: Path, direction: str
) -> None:
    import numpy as np

    out = tmp_path / "order.npz"
    sizes = ("--n", "1024", "--d", "16", "--fast-bytes", "8KB", "--mask", "strided:128", "--direction", direction)
    found = attenio("reorder", *sizes, "--out", out, "--json").json
    moved = {order["method"]: order["moved_words"] for order in found["orders"]}
    planned = attenio("plan", *sizes, "--json").json["plan"]
    assert moved["natural"] == planned["moved_words"]
    assert moved[found["best"]] == min(moved.values()) <= moved["natural"]
    assert sorted(np.load(out)["queries"]) == list(range(1024))
    assert attenio("reorder", *sizes).status == 0


@pytest.mark.parametrize("direction", ["backward", "training"])
@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_a_sweep_and_a_plan_say_the_same(attenio: Any, tmp_path: Path, direction: str, ending: str) -> None:
    out = tmp_path / f"points.{ending}"
    options = ("--n", "96", "--d", "8,16", "--mask", "causal", "--direction", direction)
    found = attenio("sweep", *options, "--fast-bytes", "2KB,64", "--out", out, "--json").json
    assert (found["direction"], found["points"], found["planned"]) == (direction, 4, 4)
    assert out.exists()
    assert not out.with_name(f"{out.name}.parts").exists()
    rows = attenio("sweep", *options, "--fast-bytes", "2KB,64", "--json").json["rows"]
    for row in rows:
        asked = ("--n", "96", "--d", row["d"], "--mask", "causal", "--fast-bytes", 2 * row["fast_words"])
        plan = attenio("plan", *asked, "--direction", direction, "--json").json["plan"]
        assert (row["moved_words"], row["peak_words"]) == (plan["moved_words"], plan["peak_words"])
        if direction == "training":
            assert (row["saved"], row["forward_dataflow"]) == (plan["saved"], plan["forward"]["dataflow"])
            assert row["backward_dataflow"] == plan["backward"]["dataflow"]
        else:
            assert row["dataflow"] == plan["dataflow"]
    said = attenio("sweep", *options, "--fast-bytes", "2KB,64")
    assert said.status == 0
    assert "best" in said.out
