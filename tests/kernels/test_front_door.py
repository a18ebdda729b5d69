"""Importing attenio needs NumPy only; what needs PyTorch says so in one line."""

import subprocess
import sys

BLOCKED = "import sys; sys.modules['torch'] = None; import attenio"


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_attenio_does_not_import_torch():
    assert python("import attenio, sys; assert 'torch' not in sys.modules").returncode == 0


def test_without_torch_one_line_names_the_extra():
    for name in ("attention", "explain"):
        done = python(
            f"{BLOCKED}\ntry:\n    attenio.{name}\nexcept attenio.AttenioError as problem:\n    print(problem)"
        )
        assert done.stdout.strip() == f"attenio.{name} needs the 'torch' extra: pip install 'attenio[torch]'"


def test_other_names_are_still_unknown():
    assert "has no attribute 'nothing'" in python("import attenio; attenio.nothing").stderr
