"""Laws of the machine catalogue and of machine files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import machine_named, machines, machines_in_file
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import Machine

NAMES = [machine.name for machine in machines()]
GOOD = """\
name: board
source: my notes
levels:
  - name: scratchpad
    capacity_bytes: 256KB
    units: 4
  - name: DRAM
    bandwidth_bytes_per_s: 25.6 GB/s
flops_per_s:
  fp16: 2 TFLOP/s
exponentials_per_s: 8e9
"""


@pytest.mark.parametrize("machine", machines(), ids=NAMES)
def test_every_machine_says_what_it_is_and_where_its_numbers_come_from(machine: Machine) -> None:
    assert machine.description
    assert machine.source
    assert machine.name == machine.name.lower()
    assert machine.flops_per_s
    assert all(level.bandwidth_bytes_per_s for level in machine.levels[1:])


@pytest.mark.parametrize("machine", machines(), ids=NAMES)
def test_rates_do_not_grow_towards_slower_memory(machine: Machine) -> None:
    rates = [level.bandwidth_bytes_per_s or 0 for level in machine.levels[1:]]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_is_found_by_its_name_in_any_case(name: str) -> None:
    assert machine_named(name.upper()).name == name


@pytest.mark.parametrize(
    "name", ["b200", "mi300x", "rtx-4090", "tpu-v5e", "tpu-v6e", "apple-m4", "graviton4", "xeon-8480+", "epyc-9654"]
)
def test_a_number_without_a_source_is_called_what_it_is(name: str) -> None:
    assert any(word in machine_named(name).description for word in ("Estimated: ", "Unconfirmed: "))


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_the_attenio_machine_comes_in_every_published_size() -> None:
    for kilobytes in (64, 128, 256, 384, 512, 640, 768):
        machine = machine_named(f"attenio-{kilobytes}k")
        assert machine.levels[0].capacity_bytes == kilobytes * 1024
        assert machine.levels[1].bandwidth_bytes_per_s == 128e9
        assert machine.flops_per_s[ElementType.FP16] == 2 * 64 * 32 * 1e9
        assert machine.exponentials_per_s == 128e9


@pytest.mark.parametrize(
    ("name", "units", "tensor_hz", "other_hz"),
    [("a100", 108, 1.41e9, 1.41e9), ("h100", 132, 1.83e9, 1.98e9), ("h200", 132, 1.83e9, 1.98e9)],
)
def test_gpu_rates_follow_from_units_and_clock(name: str, units: int, tensor_hz: float, other_hz: float) -> None:
    machine = machine_named(name)
    assert machine.levels[0].units == units
    assert machine.exponentials_per_s == pytest.approx(16 * units * other_hz, rel=1e-3)
    products_per_clock, fp32_per_clock = (1024, 64) if name == "a100" else (2048, 128)
    # datasheets round to the TFLOP
    assert machine.flops_per_s[ElementType.FP32] == pytest.approx(2 * fp32_per_clock * units * other_hz, rel=2e-3)
    assert machine.flops_per_s[ElementType.BF16] == pytest.approx(2 * products_per_clock * units * tensor_hz, rel=1e-3)
    assert len(machine.levels) == 3


@pytest.mark.parametrize(
    ("name", "units", "clock_hz", "operations"),
    [
        ("rtx-4090", 128, 2.52e9, {"fp32": 2 * 128, "fp16": 2 * 256, "bf16": 2 * 256, "fp8": 2 * 512}),
        ("apple-m4", 10, 1.47e9, {"fp32": 2 * 128, "fp16": 2 * 128}),
        ("graviton4", 96, 2.8e9, {"fp32": 2 * 4 * 4, "fp16": 2 * 4 * 8, "bf16": 2 * 4 * 16}),
        # AMX: a product of tiles of 16 x 32 and 32 x 16 numbers of 16 bits takes 16 clocks
        ("xeon-8480+", 56, 2.0e9, {"fp32": 2 * 2 * 16, "bf16": 2 * 16 * 16 * 32 // 16}),
        ("epyc-9654", 96, 2.4e9, {"fp32": 2 * 2 * 8, "bf16": 2 * 2 * 16}),
    ],
)
def test_rates_that_are_computed_are_units_times_clock_times_operations_a_clock(
    name: str, units: int, clock_hz: float, operations: dict[str, int]
) -> None:
    machine = machine_named(name)
    assert machine.levels[0].units == units
    found = {element.value: rate for element, rate in machine.flops_per_s.items()}
    assert found == pytest.approx({element: units * clock_hz * each for element, each in operations.items()}, rel=1e-3)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("h10", "h100"),
        ("attenio512k", "attenio-512k"),
        ("xeon", "xeon-8480+"),
        ("rtx4090", "rtx-4090"),
        ("mi300", "mi300x"),
    ],
)
def test_an_unknown_machine_suggests_the_closest(wrong: str, right: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        machine_named(wrong)
    assert f"unknown machine {wrong!r}; did you mean {right}? 'attenio machines' lists all" in str(caught.value)


@pytest.mark.parametrize("name", ["", "zzzz", "nan", "💾"])
def test_a_name_like_no_machine_is_still_answered(name: str) -> None:
    with pytest.raises(InvalidInput, match="'attenio machines' lists all"):
        machine_named(name)


def test_a_file_of_one_s_own_is_a_machine(tmp_path: Path) -> None:
    file = tmp_path / "board.yaml"
    file.write_text(GOOD)
    machine = machine_named(str(file))
    assert (machine.name, machine.source, machine.exponentials_per_s) == ("board", "my notes", 8e9)
    assert machine.levels[0].capacity_bytes == 256 * 1024
    assert machine.levels[0].units == 4
    assert machine.levels[1].bandwidth_bytes_per_s == 25.6e9
    assert machine.flops_per_s == {ElementType.FP16: 2e12}


def test_a_machine_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    file = tmp_path / "My Board.YAML"
    file.write_text(GOOD.replace("name: board\n", ""))
    assert machine_named(str(file)).name == "My Board"


def test_one_of_several_machines_in_a_file_is_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "boards.yml"
    entry = "- name: {}\n  levels: [{{name: a, capacity_bytes: {}}}, {{name: b}}]\n"
    file.write_text(entry.format("small", "1KB") + entry.format("large", "1MB"))
    assert [machine.name for machine in machines_in_file(file)] == ["small", "large"]
    assert machine_named(f"{file}#LARGE").levels[0].capacity_bytes == 2**20
    with pytest.raises(
        InvalidInput, match=r"describes 2 machines \(small, large\); choose one, as in .*boards\.yml#small"
    ):
        machine_named(str(file))
    with pytest.raises(InvalidInput, match="describes no machine 'huge'; it has small, large"):
        machine_named(f"{file}#huge")
    file.write_text(entry.format("small", "1KB") + entry.format("small", "1MB"))
    with pytest.raises(InvalidInput, match="line 3: machine small is described again \\(first on line 1\\)"):
        machine_named(f"{file}#small")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("256KB", "-5", "line 5: capacity_bytes is -5; it must be at least 1"),
        ("256KB", "0", "line 5: capacity_bytes is 0; it must be at least 1"),
        ("256KB", ".nan", "line 5: capacity_bytes is '.nan'; write a whole number"),
        ("256KB", "big", "line 5: capacity_bytes is 'big'; write a whole number"),
        ("256KB", "1e30", "line 5: capacity_bytes is "),
        ("256KB", "[1, 2]", "line 5: capacity_bytes is a list; give a single value"),
        ("256KB", "", "line 4: level scratchpad has no capacity_bytes; only the slowest may lack one"),
        ("units: 4", "units: 1.5", "line 6: units is '1.5', which is not whole"),
        ("units: 4", "unit: 4", "line 6: unknown key 'unit'; did you mean units?"),
        ("units: 4", "capacity_bytes: 4", "line 6: capacity_bytes is given again (first on line 5)"),
        ("name: DRAM", "name: scratchpad", "line 4: two levels are called scratchpad"),
        ("25.6 GB/s", "25.6 GB", "line 8: bandwidth_bytes_per_s is '25.6 GB'; write a number such as"),
        ("25.6 GB/s", "-1", "line 8: bandwidth_bytes_per_s is '-1'; it must be above zero"),
        ("name: DRAM", "name: DRAM\n    capacity_bytes: 1KB", "line 7: level DRAM of machine board holds 1 KiB"),
        ("fp16: 2 TFLOP/s", "fp15: 2", "line 10: unknown key 'fp15'; did you mean fp16?"),
        ("fp16: 2 TFLOP/s", "fp16: fast", "line 10: fp16 is 'fast'; write a number such as 4.096e12"),
        ("exponentials_per_s: 8e9", "exponentials_per_s: none", "line 11: exponentials_per_s is 'none'"),
        ("levels:", "layers:", "line 3: unknown key 'layers'; did you mean levels?"),
        ("source: my notes", "source: {a: 1}", "line 2: source is a mapping; give a single value"),
        ("name: board", "name: [board", "the YAML is broken here, mend it"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InvalidInput) as caught:
        machine_named(str(file))
    assert str(caught.value).startswith(f"{file} line ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("levels", ["[]", "[{name: a, capacity_bytes: 1}]"])
def test_a_machine_file_lists_at_least_two_levels(tmp_path: Path, levels: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(f"name: x\nlevels: {levels}\n")
    with pytest.raises(InvalidInput, match=r"line 2: levels lists \d; give at least two, fastest first"):
        machine_named(str(file))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.yaml' does not exist"):
        machine_named(str(tmp_path / "gone.yaml"))
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory; give a YAML file"):
        machine_named(f"{tmp_path}/")
    with pytest.raises(InvalidInput, match=r"bad\.json' ends in \.json; .* rename it to end in \.yaml"):
        machine_named("bad.json")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        machine_named(str(tmp_path / "bytes.yaml"))


@settings(deadline=None, derandomize=True, max_examples=26)
@given(st.data())
def test_no_damage_to_a_file_escapes_as_anything_but_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    stop = data.draw(st.integers(start, min(start + 12, len(GOOD))))
    damage = data.draw(st.text(alphabet="{}[]:-#&*!|>'\" \n\t%@`,0aZ\x00", max_size=4))
    file = tmp_path_factory.mktemp("machines") / "my.yaml"
    file.write_text(GOOD[:start] + damage + GOOD[stop:])
    try:
        machines_in_file(file)
    except InvalidInput as problem:
        assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is an empty list; describe a machine"),
        ("levels: [{name: a, capacity_bytes: 8}, {name: b}]\nflops_per_s: {fp16: fast}\n", "line 2: fp16 is 'fast'"),
    ],
)
def test_a_mistake_outside_the_levels_is_named_once(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "board.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        machine_named(str(file))
    assert message in str(caught.value)
    assert str(caught.value).count("board.yaml") == 1


def test_a_compute_capability_is_read_and_its_mistakes_are_named(tmp_path: Path) -> None:
    levels = "levels: [{name: fast, capacity_bytes: 1MB}, {name: slow}]\n"
    file = tmp_path / "board.yaml"
    file.write_text(levels + "compute_capability: 9.0\n")
    assert machine_named(str(file)).compute_capability == (9, 0)
    file.write_text(levels + "compute_capability: hopper\n")
    with pytest.raises(InvalidInput, match=r"line 2: compute_capability is hopper; write a GPU's as 9\.0"):
        machine_named(str(file))


def test_a_granularity_is_read_by_element_type_and_its_mistakes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "board.yaml"
    levels = "levels:\n  - {name: near, capacity_bytes: 64KB}\n  - {name: far}\n"
    file.write_text(levels + "granularity: {fp16: {rows: 16, keys: 8}, fp8: {keys: 32}}\n")
    machine = machine_named(str(file))
    assert machine.granularity_of(ElementType.FP16) == Granularity(rows=16, keys=8)
    assert machine.granularity_of(ElementType.FP8) == Granularity(keys=32)
    assert machine.granularity_of(ElementType.FP32) == FREE_TILES
    for text, message in (
        ("{fp16: {rows: 0}}", "line 4: rows is 0"),
        ("{fp16: {row: 8}}", "unknown key 'row'; did you mean rows"),
        ("{fp12: {rows: 8}}", "unknown key 'fp12'"),
        ("{fp16: 64}", "expected 'key: value' lines"),
    ):
        file.write_text(f"{levels}granularity: {text}\n")
        with pytest.raises(InvalidInput, match=message):
            machine_named(str(file))


def test_only_machines_with_tensor_cores_ask_for_tiles_of_whole_units() -> None:
    assert {machine.name for machine in machines() if machine.granularity} == {
        "a100",
        "h100",
        "h200",
        "b200",
        "rtx-4090",
    }
