"""A word to those who wait: the first search on a computer is compiled, and its time limit begins after that."""

from importlib.util import find_spec
from pathlib import Path

from attenio.cli.output import print_aside

__all__ = ["tell_of_compiling"]


def tell_of_compiling(*modules: str) -> None:
    """Say that compiling takes a while, unless what was compiled before lies beside modules with these names.

    A name is a package of ``attenio.pebbling``, a slash, and how its compiled modules begin.

    Without a compiler nothing is said: the engine is about to say which extra has it.
    """
    if find_spec("numba") is None:
        return
    import attenio.pebbling

    place = Path(attenio.pebbling.__file__).parent
    names = [name.split("/") for name in modules]
    if not all(any((place / package / "__pycache__").glob(f"{prefix}*.nbi")) for package, prefix in names):
        print_aside("compiling the search, once, in a minute or so; the time limit begins after that")
