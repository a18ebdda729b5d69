"""Kernels run in Triton's interpreter here: it has to be asked for before they are imported.

Triton has no package for some platforms; there is nothing to collect there.
"""

import os
import sys

if "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "1"
try:
    import triton  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py"]
