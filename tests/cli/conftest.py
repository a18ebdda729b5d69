"""The command line, called in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from attenio.cli import main


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, which must be one JSON value and nothing else."""
        assert self.status == 0, self.err
        return json.loads(self.out)

    @property
    def mistake(self) -> str:
        """The one line of a command that refused."""
        assert self.status == 2, (self.status, self.out, self.err)
        assert self.out == ""
        assert self.err.startswith("attenio: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("attenio: ").rstrip("\n")


Attenio = Callable[..., Said]


@pytest.fixture
def attenio(capsys: pytest.CaptureFixture[str]) -> Attenio:
    def call(*arguments: object) -> Said:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(status, said.out, said.err)

    return call
