"""A word to those who wait: the first search on a computer is compiled, and its time limit begins after that."""

from importlib.util import find_spec
from pathlib import Path

from attenio.cli.output import print_aside

__all__ = ["tell_of_compiling"]


def tell_of_compiling(package: str, prefix: str) -> None:
    """Say that compiling takes a while, unless what was compiled before lies beside the package's modules.

    Without a compiler nothing is said: the engine is about to say which extra has it.
    """
    if find_spec("numba") is None:
        return
    import attenio.pebbling

    folder = Path(attenio.pebbling.__file__).parent / package / "__pycache__"
    if not any(folder.glob(f"{prefix}*.nbi")):
        print_aside("compiling the search, once, in a minute or so; the time limit begins after that")
