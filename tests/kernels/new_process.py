"""Programs that want a process of their own: each is forked from one that has imported PyTorch, which takes seconds."""

import json
import os
import subprocess
import sys
from functools import cache

__all__ = ["in_a_new_process"]

_FORKS = """
import json, os, signal, sys, tempfile
import torch
asked, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.dup(1)
while line := asked.readline():
    program, environment, typed = json.loads(line)
    files = [tempfile.TemporaryFile() for _ in range(3)]
    files[0].write(typed.encode())
    files[0].seek(0)
    child = os.fork()
    if child == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for file in files:
        file.seek(0)
    os.write(answers, json.dumps([status, *(file.read().decode() for file in files[1:])]).encode() + b"\\n")
else:
    os._exit(0)
for number, file in enumerate(files):
    os.dup2(file.fileno(), number)
asked.close()
os.close(answers)
os.environ.clear()
os.environ.update(environment)
signal.alarm(300)
exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
"""


def in_a_new_process(program, environment=None, typed=""):
    """Run a program that finds PyTorch imported and nothing of ours: its status, its output and its errors.

    It ends as any process does, with what waits for that.
    """
    process = _process()
    given = dict(os.environ if environment is None else environment)
    process.stdin.write(json.dumps([program, given, typed]).encode() + b"\n")
    answer = process.stdout.readline()
    assert answer, f"the process that forks ended with status {process.wait()}"
    return json.loads(answer)


@cache
def _process():
    """It ends with the tests, when nothing more can come."""
    return subprocess.Popen(
        [sys.executable, "-c", _FORKS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
    )  # fmt: skip
