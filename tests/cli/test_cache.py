"""Laws of the options that say how keys are kept: bits, sinks, caps and pages, on plan, bounds, run, sweep, report."""

import json

from attenio import Machine, Workload, best_plan
from attenio.paging import PagedWorkload, bounds_for_pages, plan_pages

PAGES = ("--requests", "300,289,272", "--shared-prefix", "256", "--page-size", "16", "--d", "16", "--heads", "4",
         "--kv-heads", "2", "--kv-bits", "8", "--sinks", "--softcap", "30", "--fast-bytes", "8KB")  # fmt: skip


def test_plan_bounds_and_run_answer_about_pages_what_python_finds(attenio):
    shape = {"d": 16, "heads": 4, "kv_heads": 2, "kv_bits": 8, "sinks": True, "softcap": 30.0}
    workload = PagedWorkload.of_prefix(256, lengths=(300, 289, 272), page_size=16, **shape)
    plan, bounds = plan_pages(workload, 4096), [bound.words for bound in bounds_for_pages(workload, 4096)]
    planned, floors, ran = (attenio(name, *PAGES, "--json").json for name in ("plan", "bounds", "run"))
    assert planned["plan"]["moved_words"] == ran["moved_words"] == plan.moved_words < plan.apart_words
    for found in (planned, floors, ran):
        assert [bound["words"] for bound in found["lower_bounds"]] == bounds
    assert ran["peak_words"] <= 4096 and ran["max_abs_error"] < 0.01 and "plan" not in floors
    assert planned["gap"] == plan.moved_words / max(bounds) >= 1
    assert "pages 0..15 once" in attenio("plan", *PAGES).out


def test_requests_are_a_batch_of_keys_or_a_file_unless_they_are_given(attenio, tmp_path):
    asked = ("plan", "--model", "deepseek-v3", "--machine", "h200", "--page-size", "64", "--json")
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([1024] * 4))
    batch, given = attenio(*asked, "--keys", "1K", "--batch", "4").json, attenio(*asked, "--requests", str(path)).json
    assert batch == given and given["workload"]["values_in_keys"]
    assert given["lower_bounds"][0]["words"] == 4 * (1024 * 576 + 128 * (576 + 512))
    path.write_text(json.dumps([[0, 1, 2], [0, 1, 3]]))
    table = attenio("plan", "--requests", "2x40", "--page-size", "16", "--page-table", str(path), "--d", "4", "--json")
    assert table.json["workload"]["distinct_pages"] == 4


def test_bits_sinks_and_caps_reach_plans_runs_and_sweeps_of_sequences(attenio):
    shape = ("--n", "128", "--d", "16", "--heads", "4", "--kv-heads", "2", "--batch", "2", "--fast-bytes", "4KB")
    forms = ("--kv-bits", "8", "--sinks")
    workload = Workload(n=128, d=16, heads=4, kv_heads=2, batch=2, kv_bits=8, sinks=True)
    plan = best_plan(workload, Machine.with_fast_bytes(4096))
    ran = attenio("run", *shape, *forms, "--softcap", "20", "--json").json
    assert ran["moved_words"] == ran["plan"]["moved_words"] == plan.moved_words
    assert [ran["workload"][name] for name in ("kv_bits", "sinks", "softcap")] == [8, True, 20.0]
    swept = attenio("sweep", *shape, "--kv-bits", "16,8", "--sinks", "--json").json["rows"]
    assert [row["kv_bits"] for row in swept] == [16, 8] and swept[1]["moved_words"] == plan.moved_words
    assert all(row["gap"] >= 1 for row in swept)


def test_models_bring_their_sinks_and_caps_where_these_are_planned_and_say_so_elsewhere(attenio):
    sinks = attenio("bounds", "--model", "gpt-oss-120b-global", "--decode", "--n", "1K", "--json").json
    assert sinks["workload"]["sinks"] and sinks["lower_bounds"][0]["words"] == 8 * 2 * 64 * 1024 + 64 * 2 * 64 + 64
    capped = ("--model", "gemma-2-9b-global", "--n", "1K", "--machine", "h100", "--json")
    assert attenio("plan", *capped).json["workload"]["softcap"] == 50
    step = attenio("plan", *capped, "--direction", "training").json
    assert step["workload"]["softcap"] is None
    assert step["notes"] == ["gemma-2-9b-global: its cap on scores left out here"]
    assert attenio("plan", *capped, "--devices", "4").json["notes"] == step["notes"]


def test_what_it_cannot_answer_is_refused_in_a_line(attenio, tmp_path):
    assert "is not whole pages of 64" in attenio("plan", "--requests", "2x640", "--shared-prefix", "100").mistake
    assert "--mask causal is not for pages" in attenio("plan", "--requests", "8", "--mask", "causal").mistake
    assert "pages are planned forward" in attenio("plan", "--requests", "8", "--direction", "training").mistake
    assert "a sweep has no pages; leave --page-size out" in attenio("sweep", "--page-size", "16").mistake
    assert "a report has no pages" in attenio("report", "--new", "2", "--out", str(tmp_path / "r.html")).mistake
    assert "--softcap does not change" in attenio("sweep", "--softcap", "5").mistake
    assert "know no sinks" in attenio("plan", "--n", "64", "--sinks", "--devices", "2").mistake
    assert "know no pages" in attenio("plan", "--requests", "8", "--devices", "2").mistake
    assert "--dataflow flat is of sequences" in attenio("plan", "--requests", "8", "--dataflow", "flat").mistake
    assert "--tiles is of sequences" in attenio("run", "--requests", "8", "--tiles", "a=1").mistake
    assert "softcap is 'x'" in attenio("plan", "--softcap", "x").mistake
    assert "cannot read the requests" in attenio("plan", "--requests", str(tmp_path / "no.json")).mistake
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}}")
    assert "are not a list of numbers" in attenio("plan", "--requests", str(wrong)).mistake
    both = ("--shared-prefix", "64", "--page-table", str(wrong))
    assert "--shared-prefix makes a table" in attenio("plan", "--requests", "2x128", *both).mistake
    assert "kv_bits below a word" in attenio("plan", "--n", "64", "--kv-bits", "8", "--direction", "training").mistake
