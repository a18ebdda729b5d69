"""Laws of the options that say how keys are kept: bits, sinks, caps and pages, on plan, bounds, run, sweep, report."""

import json
from functools import partial

from attenio import Machine, Workload, best_plan
from attenio.catalogue import machine_named, model_named
from attenio.paging import PagedWorkload, bounds_for_pages, plan_pages
from attenio.report import accelerator_section

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


def test_a_sweep_of_pages_has_the_floor_and_the_gap_of_every_combination(attenio, tmp_path):
    asked = ("sweep", "--keys", "300", "--batch", "4", "--d", "16", "--heads", "4", "--kv-heads", "2", "--page-size",
             "16,32", "--shared-prefix", "0,256", "--kv-bits", "16,8", "--fast-bytes", "4KB,16KB")  # fmt: skip
    out = tmp_path / "pages.csv"
    rows = attenio(*asked, "--json").json["rows"]
    assert len(rows) == 16 and all(row["gap"] >= 1 and row["reason"] is None for row in rows)
    for row in rows:
        shape = {"d": 16, "heads": 4, "kv_heads": 2, "page_size": row["page_size"], "kv_bits": row["kv_bits"]}
        shares = row["distinct_keys"] < row["keys"]
        make = partial(PagedWorkload.of_prefix, 256) if shares else PagedWorkload
        workload = make(lengths=(300,) * 4, **shape)
        plan, bounds = (find(workload, row["fast_words"]) for find in (plan_pages, bounds_for_pages))
        assert (row["moved_words"], row["apart_words"]) == (plan.moved_words, plan.apart_words)
        assert row["lower_bound_words"] == max(bound.words for bound in bounds)
    assert sum(row["shares"] for row in rows) == 8
    assert "16 of 16 points have a plan" in attenio(*asked, "--out", str(out)).out
    assert len(out.read_text().splitlines()) == 17


def test_a_combination_that_is_no_workload_carries_its_reason(attenio):
    rows = attenio("sweep", "--keys", "100", "--batch", "2", "--shared-prefix", "64,128", "--json").json["rows"]
    assert rows[0]["gap"] >= 1 and rows[1]["moved_words"] is None and "128" in rows[1]["reason"]


def test_a_report_of_pages_has_its_plan_its_tree_and_its_floor(attenio, tmp_path):
    out = tmp_path / "pages.html"
    found = attenio("report", *PAGES, "--out", str(out), "--json").json
    planned = attenio("plan", *PAGES, "--json").json
    assert {name: found[name] for name in planned} == planned and found["report"] == str(out)
    page = out.read_text()
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    drawn = {trace["meta"]["legend"]: trace for trace in figures["paged-memory"]["data"]}
    at = drawn["the plan"]["x"].index(4096)
    assert drawn["the plan"]["y"][at] == planned["plan"]["moved_words"]
    assert drawn["requests apart"]["y"][at] == planned["plan"]["apart_words"]
    assert drawn["the largest bound"]["y"][at] == max(bound["words"] for bound in planned["lower_bounds"])
    assert "pages 0..15 once for requests 0, 1, 2" in page and "compulsory" in page


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
    assert step["workload"]["softcap"] == 50 and step["notes"] == []
    left = ["gemma-2-9b-global: its cap on scores left out here"]
    assert attenio("plan", *capped, "--devices", "4").json["notes"] == left
    training = ("--n", "1K", "--machine", "h100", "--direction", "training", "--json")
    (with_sinks,) = attenio("sweep", "--model", "gpt-oss-120b-global", *training).json["rows"]
    step = attenio("plan", "--model", "gpt-oss-120b-global", *training).json
    assert with_sinks["moved_words"] == step["plan"]["moved_words"] and step["workload"]["sinks"]


def test_what_it_cannot_answer_is_refused_in_a_line(attenio, tmp_path):
    assert "is not whole pages of 64" in attenio("plan", "--requests", "2x640", "--shared-prefix", "100").mistake
    assert "--mask causal is not for pages" in attenio("plan", "--requests", "8", "--mask", "causal").mistake
    assert "pages are planned forward" in attenio("plan", "--requests", "8", "--direction", "training").mistake
    page = ("--page-size", "16")
    assert "a sweep of pages takes no --cluster" in attenio("sweep", *page, "--cluster", "local:2").mistake
    assert "writes .csv, .json or .jsonl" in attenio("sweep", *page, "--out", str(tmp_path / "r.parquet")).mistake
    assert "know no pages" in attenio("sweep", *page, "--devices", "2").mistake
    assert "is not whole pages of 64" in attenio("sweep", "--requests", "2x640", "--shared-prefix", "100,70").mistake
    devices = ("--requests", "8", "--devices", "2", "--out", str(tmp_path / "r.html"))
    assert "know no pages" in attenio("report", *devices).mistake
    assert "--softcap does not change" in attenio("sweep", "--softcap", "5").mistake
    assert "know no sinks" in attenio("plan", "--n", "64", "--sinks", "--devices", "2").mistake
    assert "know no pages" in attenio("plan", "--requests", "8", "--devices", "2").mistake
    assert "--dataflow flat is of sequences" in attenio("plan", "--requests", "8", "--dataflow", "flat").mistake
    assert "--tiles is of sequences" in attenio("run", "--requests", "8", "--tiles", "a=1").mistake
    assert "softcap is 'x'" in attenio("plan", "--softcap", "x").mistake
    assert "cannot read the requests" in attenio("plan", "--requests", str(tmp_path / "no.json")).mistake
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}}")
    assert "are not a list of whole numbers" in attenio("plan", "--requests", str(wrong)).mistake
    both = ("--shared-prefix", "64", "--page-table", str(wrong))
    assert "shared prefix is -64; it must be at least 0" in attenio("plan", "--shared-prefix", "-64").mistake
    assert "--shared-prefix makes a table" in attenio("plan", "--requests", "2x128", *both).mistake
    assert "has no gradient" in attenio("plan", "--n", "64", "--kv-bits", "8", "--direction", "training").mistake


def test_a_latent_is_one_array_where_it_is_timed_and_refused_where_there_are_two_buffers(attenio, monkeypatch):
    latent = ("--model", "deepseek-v3", "--decode", "--keys", "64")
    timed = attenio("bench", *latent, "--repeats", "1", "--device", "cpu", "--json").json
    assert "values in keys" in timed["workload"]
    assert all(each["max_abs_error"] < 0.1 for each in timed["contenders"] if each["samples_ms"])
    for command in ("simulate", "explore-design"):
        said = attenio(command, *latent).mistake
        assert "give --d 576 --value-dim 512 to ask about two arrays" in said
    monkeypatch.setattr(accelerator_section, "_experiment_figures", lambda: ())
    asked = model_named("deepseek-v3").workload(n=64, decode=True)
    drawn = accelerator_section.accelerator_section(asked, machine_named("attenio-512k"))
    assert "loads keys and values one after the other" in str(drawn.sections)


def test_a_shared_prefix_of_no_keys_is_shared_by_nobody_as_in_a_sweep(attenio):
    asked = ("--requests", "2x640", "--json")
    found = attenio("plan", *asked, "--shared-prefix", "0").json
    assert found == attenio("plan", *asked, "--page-size", "64").json
    (row,) = attenio("sweep", *asked, "--shared-prefix", "0").json["rows"]
    assert row["moved_words"] == found["plan"]["moved_words"]
