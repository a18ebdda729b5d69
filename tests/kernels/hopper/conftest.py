"""What the tests of Hopper kernels share: a Gluon interpreter, a compiler, the backward pass interpreted."""

import importlib.util
import sys
from pathlib import Path

_files = {"gluon_interpreter": ".", "offline_compiler": "."}
if importlib.util.find_spec("triton") is not None:
    from tests.kernels.hopper.compilers import compilers  # noqa: F401

    _files["interpreted_backward"] = "backward"
for _name, _folder in _files.items():
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).parent / _folder / f"{_name}.py")
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
