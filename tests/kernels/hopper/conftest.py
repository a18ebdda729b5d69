"""What the tests of Gluon kernels share, beside this file: an interpreter, a compiler, the backward pass interpreted.

Triton, which Gluon is part of, has no package for some platforms; there is nothing to collect there.
"""

import importlib.util
import os
import sys
from pathlib import Path

if "triton" not in sys.modules:  # tests of Triton's kernels, which may follow, need it so
    os.environ["TRITON_INTERPRET"] = "1"
_names = {"gluon_interpreter": ".", "offline_compiler": "."}
try:
    import triton  # noqa: F401

    _names["interpreted_backward"] = "backward"
except ImportError:
    collect_ignore_glob = ["test_*.py", "backward/test_*.py"]

for _name, _folder in _names.items():
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).parent / _folder / f"{_name}.py")
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
