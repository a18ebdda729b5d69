"""Every deliberate exception. Each message says what, how much, and what to do."""

__all__ = ["AttenioError", "DoesNotFit", "InvalidInput", "MemoryOverflow", "MissingExtra"]


class AttenioError(Exception):
    """Base of every error attenio raises on purpose; the command line prints it as one line and exits 2."""


class InvalidInput(AttenioError, ValueError):
    """A value that no workload, machine or option can have."""


class DoesNotFit(AttenioError):
    """No tile of the requested dataflow fits the fast memory, or the run would not fit this computer."""


class MemoryOverflow(AttenioError):
    """A run asked the counted fast memory for more words than it has."""


class MissingExtra(AttenioError, ImportError):
    """A feature needs a package from an optional extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the '{extra}' extra: pip install 'attenio[{extra}]'")
