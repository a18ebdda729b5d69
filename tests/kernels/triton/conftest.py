"""Kernels run in Triton's interpreter here: it has to be asked for before they are imported."""

import os
import sys

import pytest

if "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton has no package for this platform")
