"""The command line: parse, call one function, render."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 2 a mistake in what was asked, 130 stopped by Ctrl-C."""
    try:
        from attenio.cli.outcome import outcome_of

        return outcome_of(arguments)
    except KeyboardInterrupt:
        # before the rest has loaded, or while it ends: a command has its own words for it in between
        import sys

        print("attenio: stopped; no file was left half-written", file=sys.stderr)
        return 130
