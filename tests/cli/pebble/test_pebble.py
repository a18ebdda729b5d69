import json

import pytest

SMALL = ("--graph", "attention", "--n", 2, "--d", 1, "--softmax", "unshifted")


def test_a_graph_is_summarised_and_listed(attenio):
    found = attenio("pebble", "graph", *SMALL, "--json").json
    assert (found["vertices"], found["inputs"], found["compulsory_words"]) == (22, 6, 8)
    assert found["outputs"] == ["O[0,0]", "O[1,0]"]
    assert found["parents"]["S[0,1]"] == ["Q[0,0]", "K[1,0]"]
    shown = attenio("pebble", "graph", *SMALL)
    assert shown.status == 0
    assert "fewest red pebbles, standard game" in shown.out


@pytest.mark.parametrize("suffix", ["graphml", "dot", "edges"])
def test_a_graph_written_to_a_file_solves_to_the_same_cost(attenio, tmp_path, suffix):
    path = tmp_path / f"tree.{suffix}"
    tree = ("--graph", "binary-tree", "--height", 2)
    assert attenio("pebble", "graph", *tree, "--out", path).status == 0
    by_name = attenio("pebble", "solve", *tree, "--red", 3, "--json").json
    from_file = attenio("pebble", "solve", "--graph", path, "--red", 3, "--json").json
    assert by_name["optimal"]
    assert by_name["cost"] == from_file["cost"]


def test_a_solution_has_its_cost_its_bound_and_moves_that_the_referee_accepts(attenio, tmp_path):
    out = tmp_path / "best.jsonl"
    found = attenio("pebble", "solve", *SMALL, "--red", 8, "--out", out, "--json").json
    assert found["optimal"]
    assert found["cost"] == found["lower_bound"] == 8
    checked = attenio("pebble", "check", out, *SMALL, "--json").json
    assert checked["legal"]
    assert (checked["cost"], checked["red"], checked["moves"]) == (8, 8, len(found["moves"]))


def test_both_engines_are_listed_and_agree(attenio):
    found = attenio(
        "pebble", "solve", "--graph", "pyramid", "--height", 3, "--red", 4, "--engine", "both", "--json"
    ).json
    assert [each["optimal"] for each in found["engines"]] == [True, True]
    assert len({each["cost"] for each in found["engines"]}) == 1


def test_an_illegal_schedule_is_an_answer_with_status_one(attenio, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"move": "load", "vertex": "Q[0,0]"}\n{"move": "compute", "vertex": "S[0,0]"}\n')
    said = attenio("pebble", "check", path, *SMALL, "--red", 5, "--json")
    assert said.status == 1
    assert json.loads(said.out)["complaint"] == {
        "step": 2,
        "move": "compute S[0,0]",
        "reason": "its parent K[0,0] is not red",
    }
    assert "its parent K[0,0] is not red" in attenio("pebble", "check", path, *SMALL, "--red", 5).out


def test_a_schedule_without_moves_is_said_to_have_none(attenio, tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    said = attenio("pebble", "check", path, *SMALL)
    assert said.status == 1
    assert "the file has no moves: output O[0,0] and 1 more not in slow memory; check" in said.out


def test_bounds_come_with_witnesses_and_do_not_exceed_the_optimum(attenio):
    pyramid = ("--graph", "pyramid", "--height", 3, "--red", 3, "--game", "one-shot")
    bounds = attenio("pebble", "bound", *pyramid, "--json").json
    optimum = attenio("pebble", "solve", *pyramid, "--json").json
    assert optimum["optimal"]
    assert bounds["lower_bound"] == max(each["words"] for each in bounds["bounds"]) <= optimum["cost"]
    assert attenio("pebble", "bound", *pyramid).status == 0
    assert all(each["finished"] for each in bounds["bounds"])
    assert bounds["unchecked"] == []


def test_bounds_that_the_time_limit_cut_short_are_named_and_still_hold(attenio):
    hurried = ("pebble", "bound", "--graph", "fft", "--points", "64", "--red", "3", "--game", "one-shot")
    said = attenio(*hurried, "--time-limit", "1e-9").out
    assert "the time limit cut short: input pairs" in said.replace("\n", " ")
    found = attenio(*hurried, "--time-limit", "1e-9", "--json").json
    assert not all(each["finished"] for each in found["bounds"])
    assert found["lower_bound"] >= 2 * 64


def test_a_schedule_for_a_graph_too_large_to_solve_is_legal(attenio, tmp_path):
    out = tmp_path / "good.jsonl"
    product = ("--graph", "product", "--n", 6)
    found = attenio("pebble", "schedule", *product, "--red", 20, "--time-limit", "2", "--out", out, "--json").json
    assert found["cost"] >= found["lower_bound"] == 3 * 36
    assert found["seed"] == 0
    assert attenio("pebble", "check", out, *product, "--json").json["cost"] == found["cost"]


def test_frames_tell_what_every_move_changes(attenio, tmp_path):
    out = tmp_path / "film.json"
    tree = ("--graph", "binary-tree", "--height", 1, "--red", 3)
    assert attenio("pebble", "play", *tree, "--frames", out).status == 0
    film = json.loads(out.read_text())
    assert film["graph"]["vertices"] == list(attenio("pebble", "graph", *tree[:4], "--json").json["parents"])
    red, blue = set(), set()
    for frame in film["frames"]:
        red = (red | set(frame["red_added"])) - set(frame["red_removed"])
        blue = (blue | set(frame["blue_added"])) - set(frame["blue_removed"])
        assert len(red) == frame["red_words"] <= 3
    assert set(film["graph"]["outputs"]) <= blue
    assert film["frames"][-1]["cost_words"] == 3


def test_moves_are_listed_where_nobody_watches(attenio):
    said = attenio("pebble", "play", "--graph", "binary-tree", "--height", 1, "--red", 3)
    assert said.status == 0
    assert "store" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("solve", *SMALL, "--red", 3), "attention needs at least 4 red pebbles"),
        (("solve", *SMALL, "--red", 0), "red pebbles is 0"),
        (("solve", *SMALL, "--red", 10**14), "counts exactly up to 1,099,511,627,776: use a smaller number"),
        (("solve", *SMALL, "--red", "many"), "red pebbles is 'many'"),
        (("solve", "--graph", "atention", "--red", 5), "attention"),
        (("solve", *SMALL, "--red", 5, "--game", "standart"), "did you mean standard?"),
        (("solve", *SMALL, "--red", 5, "--engine", "cpsat"), "did you mean cp-sat?"),
        (("solve", *SMALL, "--red", 5, "--time-limit", "soon"), "time limit is 'soon'"),
        (("solve", *SMALL, "--red", 5, "--time-limit", "nan"), "time limit is 'nan'"),
        (("solve", *SMALL, "--red", 5, "--points", 8), "points"),
        (("graph", "--graph", "product", "--n", 300), "vertices"),
        (("graph", "--graph", "nowhere.dot"), "nowhere.dot"),
        (("graph", "--graph", "graph.xyz"), "xyz"),
        (("check", "nowhere.jsonl", *SMALL), "nowhere.jsonl"),
        (("schedule", *SMALL, "--red", 5, "--seed", -1), "seed is -1"),
        (("solve", *SMALL, "--red", 5, "--game", "partial", "--sliding"), "no sliding"),
    ],
)
def test_a_mistake_gets_one_line(attenio, arguments, words):
    assert words in attenio("pebble", *arguments).mistake


def test_a_cycle_and_an_unknown_vertex_are_named(attenio, tmp_path):
    cyclic = tmp_path / "round.edges"
    cyclic.write_text("a b\nb a\n")
    assert "cycle" in attenio("pebble", "graph", "--graph", cyclic).mistake
    schedule = tmp_path / "odd.jsonl"
    schedule.write_text('{"move": "load", "vertex": "Q[9,9]"}\n')
    assert "Q[9,9]" in attenio("pebble", "check", schedule, *SMALL).mistake
