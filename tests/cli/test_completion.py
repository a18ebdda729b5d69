"""A shell completes commands, options and names."""

import os
import subprocess
import sys

import pytest


def completed(line: str) -> set[str]:
    words = line.split(" ")
    asked = {"_ATTENIO_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "attenio"], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("attenio si", {"simulate"}),
        ("attenio plan --machine h", {"h100", "h200", "host"}),
    ],
)
def test_names_are_offered(line: str, offered: set[str]) -> None:
    assert completed(line) == offered


def test_every_list_of_names_is_one_that_the_command_takes() -> None:
    from attenio.catalogue import machine_named, model_named
    from attenio.cli import completion
    from attenio.elements import ElementType
    from attenio.planning import Dataflow
    from attenio.workload import Direction

    for names, take in (
        (completion.model_names, model_named),
        (completion.dataflow_names, Dataflow.named),
        (completion.direction_names, Direction.named),
        (completion.element_names, ElementType.named),
        (lambda begin: [name for name in completion.machine_names(begin) if name != "host"], machine_named),
    ):
        assert names("")
        for name in names(""):
            take(name)
        assert names("zzz") == []
    assert completion.mask_names("c") == ["causal"]
