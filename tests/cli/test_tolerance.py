import pytest

BOUNDED = ("--tolerance", "0.05", "--entry-bound", "0.5")


def test_plan_with_a_tolerance_approximates_and_states_what_it_guarantees(attenio):
    found = attenio("plan", "--n", "64K", "--d", "16", "--fast-bytes", "16KB", *BOUNDED, "--json")
    value = found.json
    assert (value["workload"]["tolerance"], value["workload"]["entry_bound"]) == (0.05, 0.5)
    assert value["plan"]["dataflow"] == "feature-state"
    promised = value["plan"]["approximation"]
    assert promised["truncation_error"] + promised["rounding_error"] <= 0.05
    assert (promised["kind"], promised["degree"], promised["features"]) == ("minimax", 2, 153)
    assert promised["guarantee"].startswith("at most, of half the range of a column of V")
    assert value["gap"] == 1.0


def test_plan_says_in_its_table_how_far_off_outputs_may_be(attenio):
    found = attenio("plan", "--n", "64K", "--d", "16", "--fast-bytes", "16KB", *BOUNDED)
    assert "minimax polynomial" in " ".join(found.out.split())
    assert "tolerance=0.05 entries<=0.5" in " ".join(found.out.split())


def test_an_exact_plan_has_no_approximation(attenio):
    value = attenio("plan", "--n", "1K", "--json").json
    assert value["plan"]["approximation"] is None
    assert value["workload"]["tolerance"] is None


@pytest.mark.parametrize("dataflow", ["feature-state", "value-columns", "feature-blocks", "window-and-features"])
def test_run_counts_what_was_planned_and_errs_no_more_than_it_guarantees(attenio, dataflow):
    asked = ("--n", "200", "--d", "4", "--mask", "causal", "--fast-bytes", "4KB", *BOUNDED, "--dataflow", dataflow)
    value = attenio("run", *asked, "--json").json
    assert value["moved_words"] == value["plan"]["moved_words"]
    assert 0 < value["max_abs_error"] <= value["guaranteed_error"]


def test_run_differentiates_approximations(attenio):
    asked = ("--n", "100", "--d", "4", "--fast-bytes", "8KB", "--direction", "backward", *BOUNDED)
    value = attenio("run", *asked, "--dataflow", "feature-gradient", "--json").json
    assert value["moved_words"] == value["plan"]["moved_words"] == 9 * 100 * 4
    assert value["guaranteed_error"] is None
    assert value["plan"]["approximation"]["guarantee"].startswith("of the outputs whose gradient this is")


def test_bounds_with_a_tolerance_have_unread_values_alone_as_absolute(attenio):
    value = attenio("bounds", "--n", "64K", *BOUNDED, "--json").json
    assert [bound["theorem"] for bound in value["lower_bounds"] if bound["strength"] == "absolute"] == ["unread-values"]


@pytest.mark.parametrize("command", ["plan", "bounds", "run", "report"])
@pytest.mark.parametrize("tolerance", ["0", "-0.1", "nan", "inf", "small"])
def test_a_tolerance_that_is_no_positive_number_is_refused_in_a_line(attenio, tmp_path, command, tolerance):
    out = ("--out", str(tmp_path / "page.html")) if command == "report" else ()
    found = attenio(command, "--n", "64", f"--tolerance={tolerance}", *out)
    assert "tolerance is" in found.mistake and "such as 0.01" in found.mistake
    assert not list(tmp_path.iterdir())


def test_a_sweep_of_approximations_is_refused_in_a_line(attenio):
    found = attenio("sweep", "--n", "1K", *BOUNDED)
    assert "a sweep plans exact attention" in found.mistake


def test_a_training_step_with_a_tolerance_is_refused_in_a_line(attenio):
    found = attenio("plan", "--n", "1K", "--direction", "training", *BOUNDED)
    assert "leave tolerance out" in found.mistake


def test_an_approximate_dataflow_without_a_tolerance_is_refused_in_a_line(attenio):
    found = attenio("plan", "--n", "1K", "--dataflow", "feature-state")
    assert "give it a tolerance" in found.mistake


def test_scores_too_large_for_any_degree_say_which_it_would_take(attenio):
    found = attenio("plan", "--n", "64K", "--tolerance", "0.01", "--entry-bound", "3", "--dataflow", "feature-state")
    assert "use exact" in found.mistake and "degree" in found.mistake


@pytest.mark.parametrize("command", ["simulate", "reorder", "explore-design"])
def test_a_tolerance_is_refused_where_all_is_exact(attenio, command):
    found = attenio(command, "--n", "1K", "--mask", "causal", "--tolerance", "0.1")
    assert "exact attention; leave --tolerance 0.1 out, or ask attenio plan" in found.mistake


@pytest.mark.parametrize("command", ["plan", "bounds", "simulate", "reorder"])
def test_an_entry_bound_without_a_tolerance_is_refused_where_nothing_is_run(attenio, command):
    found = attenio(command, "--n", "1K", "--entry-bound", "0.25")
    assert found.mistake == "--entry-bound 0.25 is for approximations; give --tolerance too, or leave it out"


def test_a_plan_that_approximates_says_that_its_arithmetic_is_not_counted(attenio):
    asked = ("plan", "--n", "1M", "--tolerance", "0.01", "--entry-bound", "0.25")
    said = " ".join(attenio(*asked).out.split())
    assert "Arithmetic of plans that approximate is not counted" in said and " binds" not in said
    assert attenio(*asked, "--json").json["roofline"]["binding"] is None


def test_an_exact_plan_within_a_tolerance_says_what_binds(attenio):
    said = attenio("plan", "--n", "4K", "--tolerance", "0.01").out
    assert "arithmetic binds: at least 1.049 ms with this plan" in said


def test_an_entry_bound_with_which_scores_overflow_is_refused_by_its_name(attenio):
    found = attenio("plan", "--n", "4K", "--tolerance", "1e300", "--entry-bound", "1e300")
    assert "(--entry-bound), with which scores may overflow; give at most 1e+149" in found.mistake
    assert attenio("plan", "--n", "4K", "--tolerance", "1e300", "--entry-bound", "1e149").status == 0


def test_a_tolerance_below_the_rounding_of_sums_is_told_to_be(attenio):
    asked = ("plan", "--n", "1K", "--d", "16", "--fast-bytes", "16KB", "--tolerance")
    told = "rounding sums in fp32 may cost 3e-07, so no approximation keeps a tolerance of "
    for tolerance, more in (("1e-300", ()), ("1e-40", ("--entry-bound", "0.1"))):
        (note,) = attenio(*asked, tolerance, *more, "--json").json["notes"]
        assert note.startswith(told + tolerance)
        shown = attenio(*asked, tolerance, *more).out
        assert told + tolerance in shown
    assert attenio(*asked, "1e-6", "--entry-bound", "0.1", "--json").json["notes"] == []
    reasons = " ".join(shown.split())
    assert "use exact: rounding sums in fp32" in reasons and "need a degree over" not in reasons
