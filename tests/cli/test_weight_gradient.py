"""Laws of ``attenio weight-gradient``."""

from attenio.weight_gradient import WeightGradient, bounds_for_weight_gradient, plan_weight_gradient


def test_the_plan_is_the_one_that_python_finds_with_its_bounds_and_its_gap(attenio):
    asked = ("weight-gradient", "--n", "96", "--d", "8", "--mask", "causal", "--fast-bytes", "1KB")
    found = attenio(*asked, "--json").json
    workload = WeightGradient(n=96, d=8, mask="causal")
    plan = plan_weight_gradient(workload, 512)
    assert found["plan"]["dataflow"] == plan.dataflow.value
    assert found["plan"]["moved_words"] == plan.moved_words == min(c["moved_words"] for c in found["candidates"])
    bounds = {bound.theorem: bound.words for bound in bounds_for_weight_gradient(workload, 512)}
    assert {bound["theorem"]: bound["words"] for bound in found["lower_bounds"]} == bounds
    certain = max(bound["words"] for bound in found["lower_bounds"] if bound["strength"] != "asymptotic")
    assert found["gap"] == plan.moved_words / certain >= 1
    assert found["run"] is None
    said = attenio(*asked).out
    assert f"{plan.moved_words:,}" in said and plan.dataflow.value in said


def test_it_says_what_its_bounds_cover_and_that_its_tiles_are_free(attenio):
    asked = ("weight-gradient", "--n", "96", "--d", "8", "--machine", "h100")
    said = " ".join(attenio(*asked).out.split())
    for bound in attenio(*asked, "--json").json["lower_bounds"]:
        assert bound["strength"] == "asymptotic" or f"{bound['strength'].capitalize()}: {bound['covers']}." in said
    assert "Tiles are free" in said
    assert "Tiles are free" not in attenio("weight-gradient", "--n", "96", "--d", "8", "--fast-bytes", "4KB").out


def test_a_run_moves_what_its_plan_says(attenio):
    found = attenio(
        "weight-gradient", "--queries", "13", "--keys", "29", "--d", "4", "--fast-bytes", "512",
        "--dataflow", "two-pass", "--run", "--json",
    ).json  # fmt: skip
    assert found["plan"]["dataflow"] == "two-pass"
    assert found["run"]["moved_words"] == found["plan"]["moved_words"]
    assert found["run"]["max_abs_error"] < 0.01


def test_what_it_cannot_answer_is_refused_in_a_line(attenio):
    assert "no mask prefix:3" in attenio("weight-gradient", "--mask", "prefix:3").mistake
    assert "fits" in attenio("weight-gradient", "--fast-bytes", "8").mistake
    assert "two-pass" in attenio("weight-gradient", "--n", "64", "--dataflow", "two-pas").mistake
