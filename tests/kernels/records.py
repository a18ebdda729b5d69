"""What kernels become for a Hopper GPU that need not be there, recorded so that tests need not compile them.

The same text and the same compiler give the same instructions. They are recorded under a digest of both, and what has
no record is compiled: whoever changes a kernel has it compiled. ``make instructions`` compiles all of them and writes
the records anew.
"""

import hashlib
import json
import os
import platform
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.kernels.uninterpreted import uninterpreted

import attenio.kernels

__all__ = ["maker", "portable", "recorded", "text_of_kernels"]

_PORTABLE = Path(__file__).parent / "triton" / "instructions.json"


def recorded(file, makers, compiled):
    """Records of a file for what makes each, all as JSON; those that have none come from ``compiled``, by index."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    known = {} if "RECORD_INSTRUCTIONS" in os.environ else kept
    digests = [hashlib.sha256(json.dumps(each).encode()).hexdigest()[:24] for each in makers]
    left = [index for index, digest in enumerate(digests) if digest not in known]
    if left and known:
        warnings.warn(f"{len(left)} kernels are compiled: the text of kernels changed: make instructions", stacklevel=3)
    new = {digests[index]: record for index, record in zip(left, compiled(left) if left else (), strict=True)}
    if "RECORD_INSTRUCTIONS" in os.environ:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted((kept | new).items())]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return [new[digest] if digest in new else known[digest] for digest in digests]


def maker():
    """The compiler of Triton's kernels."""
    return version("triton"), platform.machine()


@cache
def text_of_kernels(*folders):
    """Every module that kernels of Triton in these folders are made of; ``hopper/cuda`` is NVRTC's."""
    (home,) = attenio.kernels.__path__
    files = sorted(file for folder in folders for file in Path(home, folder).rglob("*.py"))
    texts = {file.relative_to(home): file.read_text(encoding="utf-8") for file in files}
    return [[str(name), text] for name, text in texts.items() if name.parts[:2] != ("hopper", "cuda")]


def portable(code):
    """What ``code`` prints, which compiles portable kernels."""
    made_by = [text_of_kernels("gpu", "triton"), code, *maker()]
    return recorded(_PORTABLE, [made_by], lambda _left: [uninterpreted(code)])[0]
