"""Laws of how a command line ends."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attenio import cli
from attenio.cli import machines as machines_command
from attenio.cli import main

COMMANDS = ("bounds", "plan", "run", "sweep", "reorder", "machines", "models", "report", "reproduce")


def test_without_a_command_there_is_help(attenio: Any) -> None:
    said = attenio()
    assert said.status == 0
    assert all(command in said.out for command in COMMANDS)
    assert said.err == ""


def test_without_a_command_of_the_game_there_is_help(attenio: Any) -> None:
    said = attenio("pebble")
    assert said.status == 0
    assert all(command in said.out for command in ("graph", "check", "solve", "bound", "schedule", "play"))
    assert said.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(attenio: Any, command: str) -> None:
    said = attenio(command, "--help")
    assert said.status == 0
    assert f"attenio {command} " in said.out
    assert "Examples:" in said.out
    assert "--json" in said.out


def test_the_version_is_one_line(attenio: Any) -> None:
    said = attenio("--version")
    assert said.status == 0
    assert said.out.startswith("attenio ")
    assert said.out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plam"], "unknown command 'plam'; did you mean plan? commands are"),
        (["zzz"], "unknown command 'zzz'; commands are"),
        (["help"], "unknown command 'help'; 'attenio --help' explains; commands are"),
        (["pebble", "solve", "--seconds", "3"], "unknown option --seconds; did you mean --time-limit?"),
        (["plan", "--mchine", "h100"], "unknown option --mchine; did you mean --machine? 'attenio plan --help'"),
        (["plan", "--seq-len", "4K"], "unknown option --seq-len; did you mean --n? 'attenio plan --help'"),
        (["bounds", "--head_dim", "64"], "unknown option --head_dim; did you mean --d?"),
        (["machines", "--gpu", "h100"], "unknown option --gpu; 'attenio machines --help'"),  # has no --machine
        (["plan", "--window", "4K"], "unknown option --window; did you mean --mask?"),
        (["plan", "--budget", "4K"], "unknown option --budget; 'attenio plan --help' explains"),
        (["plan", "--verbose"], "unknown option --verbose; 'attenio plan --help' explains"),
        (["run", "--devices", "8"], "unknown option --devices; it is an option of plan, sweep, report; 'attenio run"),
        (["product", "--n", "64"], "unknown option --n; 'attenio product --help' explains"),
        (["run", "--vrsion"], "unknown option --vrsion; 'attenio run --help' explains"),
        (["run", "--accumulator", "fp64"], "unknown element type 'fp64'; choose one of fp32, fp16, bf16, fp8"),
        (["draw", "circle"], "unknown picture 'circle'; choose one of"),
        (["--vrsion"], "unknown option --vrsion; did you mean --version?"),
        (["plan", "--n"], "option '--n' requires an argument; 'attenio plan --help' explains"),
        (["pebble", "solve", "--red"], "option '--red' requires an argument; 'attenio pebble solve --help' explains"),
        (["simulate", "--dataflow", "al"], "unknown dataflow 'al'; choose one of all, standard, flat"),
        (["simulate", "--dataflow", "flash-attention-3"], "did you mean flash-attention-"),
        (["plan", "--fast-bytes", "1e300"], "fast-bytes is about 10^300; attenio counts exactly up to"),
        (["plan", "--n", "1e30"], f"n is 1{',000' * 10}; attenio counts exactly up to 1,073,741,824"),
        (["run", "--dataflow", "attenio", "--tiles", "query_tile=1e300,key_tile=1"], "query_tile is about 10^300, and"),
        (
            ["run", "--dataflow", "attenio", "--tiles", "query_tile=-1e300,key_tile=1"],
            "query_tile is about -10^300; it",
        ),
        (["plan", "--n", "-1e300"], "n is about -10^300; it must be at least 1"),
        (["run", "--seed", "-1e300"], "seed is about -10^300; it must be at least 0"),
        (["explore", "--port", "1e300"], "port is about 10^300; give one below 65,536, or 0 for a free one"),
        (["explore", "--build", ""], "the folder of the page has no name (or is '.'); give the name of a new folder"),
        (["pebble", "solve", "--graph", "attention", "--n", "0", "--red", "5"], "n is 0; it must be at least 1"),
        (["pebble", "solve", "--graph", "attention", "--rows", "0", "--red", "5"], "rows is 0; it must be at least 1"),
        (["run", "--seed", "abc"], "seed is 'abc'; write a"),
        (["run", "--seed", "-1"], "seed is -1; it must be at least 0"),
        (["plan", "surplus"], "unexpected extra argument"),
        (["reproduce"], "missing argument 'FIGURE': fig10 to fig17, table3"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line(attenio: Any, arguments: list[str], message: str) -> None:
    assert message in attenio(*arguments).mistake


def test_control_characters_in_an_argument_stay_on_the_line(attenio: Any) -> None:
    assert "unknown machine" in attenio("machines", "h\x1b[31m\n100").mistake


def test_stopping_is_one_line_and_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(machines_command, "print_tables", interrupted)
    assert main(["machines"]) == 130
    said = capsys.readouterr()
    assert said.err == "attenio: stopped; no file was left half-written\n"


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from attenio.cli import main; sys.exit(main())", *arguments]


def test_a_reader_who_leaves_early_hears_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command_line("machines", "--json"), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command_line("machines", "--json"), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b"attenio: cannot write the answer: No space left on device; send it somewhere else\n"
    assert done.returncode == 2


def test_a_closed_output_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it where a shell said >&-
    assert main(["machines"]) == 2
    assert capsys.readouterr().err == "attenio: standard output is closed; send the answer to a file\n"


def test_a_terminal_without_unicode_is_no_error() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command_line("machines"), capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"h100" in done.stdout


def test_asking_for_the_version_or_machines_loads_nothing_heavy() -> None:
    program = "import sys; from attenio.cli import main; main(['machines']); print([m for m in %s if m in sys.modules])"
    heavy = ["plotly", "pyarrow", "ml_dtypes", "attenio.report"]
    done = subprocess.run([sys.executable, "-c", program % heavy], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


INTERRUPTED_IMPORT = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from attenio.cli import main
sys.exit(main(["plan", "--n", "64"]))
"""


@pytest.mark.parametrize("module", ["attenio.cli.outcome", "typer", "attenio.cli.plan", "numpy", "attenio.planning"])
def test_stopping_while_the_program_loads_is_one_line_too(module: str) -> None:
    program = INTERRUPTED_IMPORT.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "attenio: stopped; no file was left half-written\n")


def test_nothing_loads_before_stopping_is_possible() -> None:
    program = "import sys; had = {*sys.modules}; from attenio.cli import main; print({*sys.modules} - had)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )  # fmt: skip
    loaded = {name.split(".")[0] for name in ast.literal_eval(done.stdout)}
    assert loaded <= {"attenio", "importlib", "warnings", "__future__"}


def test_an_option_that_takes_one_value_is_given_once(attenio: Any) -> None:
    for values in (("1024", "1024"), ("1K", "2K")):
        given = [each for value in values for each in ("--n", value)]
        assert attenio("plan", *given).mistake == "--n is given 2 times; keep one"
    assert "--red is given 3 times" in attenio("pebble", "solve", *("--red", "5") * 3).mistake
    assert attenio("plan", "--n", "1K", "--json", "--json").mistake == "--json is given 2 times; keep one"
    assert attenio("doctor", "--check", "--no-check").mistake == "--check/--no-check is given 2 times; keep one"
    assert attenio("plan", "--help", "--help").status == 0


def test_an_option_is_called_in_a_message_as_it_was_typed(attenio: Any, tmp_path: Path) -> None:
    assert attenio("plan", "--n", "64", "--value-dim", "0").mistake.startswith("value-dim is 0; ")
    assert attenio("explore-design", "--pe-lines", "0").mistake.startswith("pe-lines is 0; ")
    wrong = tmp_path / "machine.yaml"
    wrong.write_text("name: wrong\nlevels: []\naccelerator: {pe_lines: 0}\n")
    assert "pe-lines" not in attenio("explore-design", "--machine", wrong, "--pe-lines", "8").mistake
