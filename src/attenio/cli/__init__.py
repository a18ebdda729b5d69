"""The command line: parse, call one function, render."""

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 2 a mistake in what was asked, 130 stopped by Ctrl-C."""
    from attenio.cli.outcome import outcome_of

    return outcome_of(arguments)
