import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# tests/cluster/executor/test_processes.py has this one, on ranks whose process has imported PyTorch once.
ON_RANKS = FOLDER / "attention_on_ranks.py"
EXAMPLES = sorted(set(FOLDER.glob("*.py")) - {ON_RANKS})


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_recorded_beside_it(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""
    assert done.stdout == example.with_suffix(".out").read_text(encoding="utf-8")
    assert done.returncode == 0


def test_an_example_on_ranks_starts_two_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda line, **_: started.append(line) or SimpleNamespace(returncode=3))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ON_RANKS), run_name="__main__")
    assert ended.value.code == 3
    assert started == [[sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(ON_RANKS)]]
