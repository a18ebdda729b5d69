"""Code that runs where Triton compiles its kernels: in one process beside the tests, which have it interpret them."""

import json
import os
import subprocess
import sys
from functools import cache

__all__ = ["uninterpreted"]

_LOOP = """
import contextlib, io, json, sys, traceback
import torch, triton
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    code, argument = json.loads(line)
    said, wrong = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(code, "<code>", "exec"), {"__name__": "code", "argument": argument})
    except Exception:
        wrong = traceback.format_exc()
    print(json.dumps([said.getvalue(), wrong]), file=answers, flush=True)
"""


def uninterpreted(code, argument=None):
    """What ``code`` prints, which finds ``argument`` under that name."""
    process = _process()
    print(json.dumps([code, argument]), file=process.stdin, flush=True)
    answer = process.stdout.readline()
    assert answer, f"the process ended with status {process.wait()}"
    said, wrong = json.loads(answer)
    assert wrong == "", wrong[-2000:]
    return said


@cache
def _process():
    """It takes seconds to start and ends with the tests, when nothing more can come."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _LOOP],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
