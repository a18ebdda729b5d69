"""Laws of ``attenio pages``."""

import json

from attenio.paging import PagedWorkload, bounds_for_pages, plan_pages


def test_the_plan_is_the_one_that_python_finds_with_its_bounds_its_tree_and_its_gap(attenio):
    asked = ("pages", "--levels", "256:8,64:2", "--own", "20", "--page-size", "16", "--d", "16", "--heads", "4",
             "--kv-heads", "2", "--kv-bits", "8", "--sinks", "--softcap", "30", "--fast-bytes", "8KB")  # fmt: skip
    found = attenio(*asked, "--json").json
    workload = PagedWorkload.of_levels(
        ((256, 8), (64, 2)), own=20, page_size=16, d=16, heads=4, kv_heads=2, kv_bits=8, sinks=True, softcap=30.0
    )
    plan = plan_pages(workload, 4096)
    assert found["plan"]["moved_words"] == plan.moved_words < found["plan"]["apart_words"] == plan.apart_words
    assert [(run["requests"], run["first"], run["stop"]) for run in found["plan"]["tree"]] == [
        (list(run.requests), run.first, run.stop) for run in plan.tree.runs
    ]
    assert [bound["words"] for bound in found["lower_bounds"]] == [b.words for b in bounds_for_pages(workload, 4096)]
    assert found["gap"] == plan.moved_words / workload.compulsory_words >= 1
    assert found["workload"]["kv_bits"] == 8 and found["run"] is None
    said = attenio(*asked).out
    assert f"{plan.moved_words:,}" in said and "shared pages once" in said and "pages 0..15 once" in said


def test_a_run_moves_what_its_plan_says_on_a_table_from_a_file(attenio, tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps([[0, 1, 2, 3, 4], [0, 1, 2, 3, 5], [6]]))
    asked = ("pages", "--lengths", "70,65,10", "--table", str(path), "--page-size", "16", "--d",
             "8", "--new", "2,1,3", "--fast-bytes", "2KB", "--run", "--json")  # fmt: skip
    found = attenio(*asked).json
    assert found["run"]["moved_words"] == found["plan"]["moved_words"]
    assert found["run"]["max_abs_error"] < 0.01 and found["workload"]["distinct_pages"] == 7


def test_a_model_gives_its_decode_s_heads_and_widths(attenio):
    found = attenio("pages", "--lengths", "4x1K", "--model", "deepseek-v3", "--machine", "h200", "--json").json
    assert found["workload"]["values_in_keys"] and found["workload"]["d"] == 576
    assert found["lower_bounds"][0]["words"] == 4 * (1024 * 576 + 128 * (576 + 512))


def test_what_it_cannot_answer_is_refused_in_a_line(attenio, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[1, 2]")
    assert "give keys and how many requests share them" in attenio("pages", "--levels", "4K").mistake
    assert "are no tree" in attenio("pages", "--levels", "100:4").mistake
    assert "leave --lengths and --table out" in attenio("pages", "--levels", "64:4", "--lengths", "8").mistake
    assert "--own 3 is for --levels" in attenio("pages", "--own", "3").mistake
    assert "lengths is ''; give numbers" in attenio("pages", "--lengths", "").mistake
    assert "how often lengths has 8 is 1,000,000,000; " in attenio("pages", "--lengths", "1e9x8").mistake
    assert "unknown option --requests; did you mean --lengths?" in attenio("pages", "--requests", "8").mistake
    assert "lengths is '8,x'" in attenio("pages", "--lengths", "8,x").mistake
    assert "kv-bits is 5" in attenio("pages", "--kv-bits", "5").mistake
    assert "softcap is 'x'" in attenio("pages", "--softcap", "x").mistake
    assert "is not a list of lists" in attenio("pages", "--table", str(wrong)).mistake
    assert "cannot read the table" in attenio("pages", "--table", str(tmp_path / "none.json")).mistake
    assert "of fast memory" in attenio("pages", "--lengths", "8", "--fast-bytes", "8").mistake


def test_nothing_that_is_typed_is_taken_for_what_was_left_out(attenio):
    for option in ("value-dim", "kv-heads", "kv-bits"):
        assert f"{option} is 0; " in attenio("pages", "--lengths", "8", f"--{option}", "0").mistake
    assert "kv-bits is 0; " in attenio("plan", "--requests", "8", "--kv-bits", "0").mistake
    assert "page-size is ''; write" in attenio("plan", "--requests", "8", "--page-size", "").mistake
    assert "own is -1; it must be at least 0" in attenio("pages", "--levels", "64:4", "--own", "-1").mistake


def test_a_table_is_of_whole_numbers_as_they_stand_in_its_file(attenio, tmp_path):
    table = tmp_path / "table.json"
    for text in ("[[0, 2.5], [0, 3]]", "[[0, true]]", '["12"]', '{"1": 1}', "[" * 100_000):
        table.write_text(text)
        assert "is not a list of lists" in attenio("pages", "--lengths", "128", "--table", str(table)).mistake
        assert "are not a list of whole numbers" in attenio("plan", "--requests", str(table)).mistake
