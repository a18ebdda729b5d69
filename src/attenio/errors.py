"""Every deliberate exception. Each message says what, how much, and what to do."""

import sys


class AttenioError(Exception):
    """Base of every error attenio raises on purpose; the command line prints it as one line and exits 2."""


class InvalidInput(AttenioError, ValueError):
    """A value that no workload, machine or option can have."""


class DoesNotFit(AttenioError):
    """No tile of the requested dataflow fits the fast memory, or the run would not fit this computer.

    ``needed_words`` are the words of fast memory that would do; None where that is not what is missing.
    """

    def __init__(self, message: str, *, needed_words: int | None = None) -> None:
        super().__init__(message)
        self.needed_words = needed_words


class MemoryOverflow(AttenioError):
    """A run asked the counted fast memory for more words than it has."""


class MissingExtra(AttenioError, ImportError):
    """A feature needs a package from an optional extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the '{extra}' extra: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """The commands that install an extra; attenio comes as a clone or as a wheel, and not by its name.

    >>> how_to_install("report")
    "pip install -e '.[report]' in a clone, or pip install 'attenio-0.1.0-py3-none-any.whl[report]' beside the wheel"
    """
    wheel = f"attenio-{sys.modules['attenio'].__version__}-py3-none-any.whl"
    return f"pip install -e '.[{extra}]' in a clone, or pip install '{wheel}[{extra}]' beside the wheel"
