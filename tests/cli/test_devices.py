import json
from pathlib import Path

import pytest

from cli.conftest import Attenio

ASKED = ("plan", "--n", "4K", "--d", "64", "--heads", "8", "--dtype", "bf16")


def test_a_plan_for_many_devices_tells_the_grid_the_words_and_every_scheme(attenio: Attenio) -> None:
    told = attenio(
        *ASKED, "--machine", "h100", "--devices", "16", "--device-memory", "80GB", "--topology", "dgx-h100:2x8"
    )
    assert told.status == 0
    for text in ("must send", "plan sends", "8 head groups × 2 rows × 1 column ", "ulysses", "zigzag", "InfiniBand"):
        assert text in " ".join(told.out.split())
    assert " on h100, behind which keys come in" in " ".join(told.out.split())
    value = attenio(*ASKED, "--devices", "16", "--topology", "dgx-h100:2x8", "--json").json
    cluster = value["cluster"]
    assert cluster["grid"] == {"heads": 8, "queries": 2, "keys": 1}
    assert cluster["words_per_device"] >= cluster["bound_words_per_device"] > 0
    assert [level["name"] for level in cluster["levels"]] == ["NVLink", "InfiniBand"]
    assert sum(level["total_words"] for level in cluster["levels"]) == cluster["total_words"]
    assert {each["scheme"] for each in cluster["schemes"]} == {
        "ring", "zigzag", "striped", "ulysses", "usp", "loongtrain", "2d-mesh", "tree",
    }  # fmt: skip
    assert "plan" in value and "lower_bounds" in value


def test_causal_work_in_strips_is_a_line_of_the_plan_and_sends_less_than_any_grid(attenio: Attenio) -> None:
    asked = (*ASKED, "--mask", "causal", "--devices", "64")
    told = " ".join(attenio(*asked).out.split())
    assert "strips of rows in 8 head groups" in told
    assert "The plan is the best grid; strips and patches, below, send less." in told
    cluster = attenio(*asked, "--json").json["cluster"]
    strips = cluster["strips"]
    assert cluster["patches"]["seconds"] is None
    assert attenio(*asked[:-1], "56", "--json").json["cluster"]["patches"] is None
    assert strips["heads"] * (sum(strips["counts"]) + strips["top"]) == 64
    assert cluster["bound_words_per_device"] <= strips["words_per_device"] < cluster["words_per_device"]
    assert strips["seconds"] is None and strips["levels"] == strips["stages"] == []
    assert attenio(*ASKED, "--devices", "64", "--json").json["cluster"]["strips"] is None
    cluster = attenio(*asked, "--topology", "dgx-h100:8x8", "--machine", "h100", "--json").json["cluster"]
    for linked in (cluster["strips"], cluster["patches"]):
        assert sum(level["total_words"] for level in linked["levels"]) == linked["total_words"]
        assert linked["seconds"] >= linked["exchange_seconds"] - sum(
            stage["seconds"] for stage in linked["stages"] if stage["overlaps_compute"]
        )


def test_causal_work_as_a_patchwork_is_a_line_of_the_plan_where_a_table_is_kept(
    attenio: Attenio, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("plan", "--n", "64K", "--d", "128", "--heads", "8", "--mask", "causal", "--devices", "8")
    assert "blocks of tokens, a table for 8 KV heads" in " ".join(attenio(*asked).out.split())
    cluster = attenio(*asked, "--json").json["cluster"]
    patches = cluster["patches"]
    monkeypatch.setenv("COLUMNS", "60")
    narrow = attenio(*asked).out
    sent = [each["words_per_device"] for each in (*cluster["schemes"], cluster, patches)]
    assert len(sent) > 8 and all(words is None or f"{words:,}" in narrow.split() for words in sent)
    assert cluster["bound_words_per_device"] <= patches["words_per_device"] < cluster["words_per_device"]
    assert patches["gap"] < 1.12 and 1 <= patches["imbalance"] < 1.001
    cramped = attenio(*asked, "--json", "--device-memory", f"{2 * patches['memory_words'] - 2}B").json["cluster"]
    assert cramped["patches"] is None


def test_every_line_has_the_gap_that_json_has(attenio: Attenio) -> None:
    asked = ("plan", "--n", "64K", "--d", "128", "--mask", "causal", "--devices", "16")
    cluster = attenio(*asked, "--json").json["cluster"]
    gaps = {each["scheme"]: each["gap"] for each in cluster["schemes"] if each["grid"] is not None}
    gaps |= {name: cluster[name]["gap"] for name in ("strips", "patches")}
    assert gaps["ring"] != pytest.approx(gaps["zigzag"], rel=0.1)  # as many words, of work less even
    shown = {cells[0]: cells for line in attenio(*asked).out.splitlines() if (cells := line.split())}
    for name, gap in gaps.items():
        assert f"{gap:.4f}×" in shown[name]


def test_a_way_that_takes_less_time_than_the_plan_of_fewest_words_is_named(attenio: Attenio) -> None:
    asked = ("plan", "--n", "1M", "--d", "128", "--heads", "64", "--kv-heads", "8", "--topology", "dgx-h100:8x8")
    cluster = attenio(*asked, "--json").json["cluster"]
    fastest = min((each for each in cluster["schemes"] if each["grid"] is not None), key=lambda each: each["seconds"])
    saved = 1 - fastest["seconds"] / cluster["seconds"]
    said = f"The plan is for few words; {fastest['scheme']} takes {saved:.1%} less time."
    assert saved > 0.001 and said in attenio(*asked).out
    assert "less time" not in attenio(*asked[:-1], "ethernet:8").out


def test_one_device_is_told_in_the_singular(attenio: Attenio) -> None:
    assert " on 1 device\n" in attenio(*ASKED, "--devices", "1").out


def test_words_are_told_without_a_topology_and_a_topology_says_how_many_devices(attenio: Attenio) -> None:
    assert "Without --topology words are counted" in attenio(*ASKED, "--devices", "4").out
    assert attenio(*ASKED, "--topology", "tpu-torus:2x2x2", "--json").json["cluster"]["devices"] == 8
    assert attenio(*ASKED, "--grid", "2x2x2", "--json").json["cluster"]["grid"] == {"heads": 2, "queries": 2, "keys": 2}
    step = attenio(*ASKED, "--direction", "training", "--devices", "4", "--json").json
    assert {each["direction"] for each in step["cluster"]["stages"]} == {"forward", "backward"}


def test_a_topology_whose_devices_are_known_implies_their_machine_unless_one_is_given(
    attenio: Attenio, tmp_path: Path
) -> None:
    implied = attenio(*ASKED, "--topology", "dgx-h100:1x8", "--json").json
    assert implied["machine"]["name"] == "h100"
    assert implied["notes"] == ["The machine is h100, which dgx-h100:1x8 joins; --machine chooses."]
    assert implied["notes"][0] in attenio(*ASKED, "--topology", "dgx-h100:1x8").out
    chosen = attenio(*ASKED, "--topology", "dgx-h100:1x8", "--machine", "h100", "--json").json
    assert chosen == {**implied, "notes": []}
    bare = attenio(*ASKED, "--devices", "8", "--topology", "dgx-h100", "--json").json
    assert (bare["machine"]["name"], bare["cluster"]["topology"]) == ("h100", "dgx-h100:1x8")
    assert "does not say nodes and GPUs of a node" in attenio(*ASKED, "--topology", "dgx-h100").mistake
    for options in (("--topology", "dgx-h100:1x8", "--machine", "attenio-512k"), ("--topology", "tpu-torus:8")):
        assert attenio(*ASKED, *options, "--json").json["machine"]["name"] == "attenio-512k"
    file = tmp_path / "ours.yaml"
    file.write_text(
        "name: ours\nlevels: [{name: fast, capacity_bytes: 1MB}, {name: slow, bandwidth_bytes_per_s: 1 TB/s}]\n"
        "links: [{name: wire, devices: 8, bandwidth_bytes_per_s: 10 GB/s, latency_s: 1e-6}]\n"
    )
    assert attenio(*ASKED, "--topology", file, "--json").json["machine"]["name"] == "ours"
    page = ("report", *ASKED[1:], "--topology", "dgx-h100:1x8", "--out", tmp_path / "page.html", "--json")
    assert attenio(*page).json["machine"]["name"] == "h100"
    said = attenio("sweep", *ASKED[1:], "--topology", "dgx-h100:1x8", "--json")
    assert [row["machine"] for row in said.json["rows"]] == ["h100"]
    assert said.err == "attenio: The machine is h100, which dgx-h100:1x8 joins; --machine chooses.\n"


def test_times_say_whose_arithmetic_they_have_and_where_they_have_none(attenio: Attenio) -> None:
    none = "The machine is attenio-512k, since tpu-torus:8 says none; --machine chooses."
    unknown = "attenio-512k has no rate for bf16: times are of the exchange alone, without arithmetic."
    asked = (*ASKED, "--topology", "tpu-torus:8")
    assert attenio(*ASKED[:-1], "fp16", "--topology", "tpu-torus:8", "--json").json["notes"] == [none]
    assert attenio(*asked, "--json").json["notes"] == [none, unknown]
    shown = " ".join(attenio(*asked).out.split())  # however narrow the terminal is
    assert unknown in shown and "arithmetic left out, its rate is unknown" in shown
    assert attenio(*asked, "--machine", "h100", "--json").json["notes"] == []
    said = attenio("sweep", *ASKED[1:-1], "fp16,bf16", "--topology", "tpu-torus:8", "--json")
    assert said.err == f"attenio: {none}\nattenio: {unknown}\n"


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        (("--devices", "0"), "devices is 0; it must be at least 1"),
        (("--devices", "1000000000"), "devices is 1,000,000,000; attenio plans up to 131,072: use fewer"),
        (("--devices", "many"), "devices is 'many'; write a whole number such as 4096 or 128K"),
        (("--devices", "8", "--topology", "star"), "unknown topology 'star'"),
        (("--devices", "8", "--device-memory", "1KB"), "use more devices or more memory"),
        (("--devices", "8", "--device-memory", "1"), "a device and there are 1 B; use more devices or more memory"),
        (("--devices", "8", "--device-memory", "0"), "device-memory is 0; it must be at least 1 byte, such as 80GB"),
        (("--device-memory", "80GB"), "--device-memory is of many devices; add --devices 8"),
        (("--devices", "128", "--topology", "dgx-h100:8x8"), "joins 64 devices and 128 are asked for"),
        (("--devices", "8", "--mask", "documents:2048,2048"), "planned for dense, causal and window masks"),
        (("--grid", "3x2x1"), "cuts 8 KV heads into 3 groups, which do not come out equal"),
        (("--grid", "3x2"), "grid is '3x2'; write head groups x rows x columns, such as 8x4x2"),
        (("--grid", "0x2x1"), "heads of the grid is 0; it must be at least 1"),
        (("--grid", "2x2x1", "--devices", "8"), "has 4 devices and --devices says 8; make them agree"),
        (("--grid", "1x2x2", "--mask", "window:64"), "one column of keys, and this grid is 1 x 2 x 2"),
        (("--devices", "8", "--dataflow", "flat"), "--dataflow flat is of one device"),
        (("--devices", "8", "--tolerance", "0.1"), "leave --tolerance 0.1 out"),
    ],
)
def test_what_cannot_be_planned_is_one_line(attenio: Attenio, options: tuple[str, ...], mistake: str) -> None:
    assert mistake in attenio(*ASKED, *options).mistake


def test_a_sweep_over_devices_has_a_row_for_each(attenio: Attenio, tmp_path: Path) -> None:
    lists = ("sweep", "--n", "4K", "--d", "64", "--heads", "8", "--mask", "dense,causal", "--devices", "1:16:x4")
    rows = attenio(*lists, "--json").json["rows"]
    assert [(row["mask"], row["devices"]) for row in rows] == [(m, p) for m in ("dense", "causal") for p in (1, 4, 16)]
    assert [row["grid"] for row in rows[:3]] == ["1x1x1", "4x1x1", "8x2x1"]
    assert [row["patches"] is None for row in rows] == [True] * 5 + [False]
    assert rows[5]["bound_words_per_device"] <= rows[5]["patches_words_per_device"] < rows[5]["words_per_device"]
    for suffix in ("csv", "json", "jsonl"):
        out = tmp_path / f"devices.{suffix}"
        assert f"every point is in {out}" in attenio(*lists, "--out", str(out)).out
        text = out.read_text()
        assert json.loads(text) == rows if suffix == "json" else len(text.splitlines()) in (6, 7)
    assert "writes .csv, .json or .jsonl" in attenio(*lists, "--out", str(tmp_path / "a.parquet")).mistake
    assert "devices is 0" in attenio("sweep", "--n", "4K", "--devices", "0").mistake
    refused = attenio("sweep", "--n", "64", "--mask", "dense,documents:32,32", "--devices", "2", "--json").json["rows"]
    assert [row["reason"] is None for row in refused] == [True, False]


def test_a_report_has_a_section_about_many_devices(attenio: Attenio, tmp_path: Path) -> None:
    page = tmp_path / "devices.html"
    options = ("--n", "1K", "--d", "64", "--devices", "4", "--out", str(page), "--json")
    assert attenio("report", *options).json["cluster"]["grid"] == {"heads": 1, "queries": 2, "keys": 2}
    text = page.read_text()
    assert "<h2>Many devices</h2>" in text and "<td>zigzag</td>" in text


def test_devices_of_a_topology_that_have_no_work_are_told(attenio: Attenio, tmp_path: Path) -> None:
    asked = (*ASKED, "--topology", "dgx-h100:8x2", "--machine", "h100")
    idle = "8 of the 16 devices of dgx-h100:8x2 are left idle."
    assert attenio(*asked, "--devices", "8", "--json").json["notes"] == [idle]
    assert idle in attenio(*asked, "--devices", "8").out
    page = ("report", *asked[1:], "--devices", "8", "--out", tmp_path / "page.html", "--json")
    assert attenio(*page).json["notes"] == [idle]
    assert attenio(*asked, "--devices", "16", "--json").json["notes"] == []
