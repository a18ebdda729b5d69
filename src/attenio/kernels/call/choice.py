"""What was chosen for a call: the one value that ``attention()`` runs and ``explain()`` prints.

Every backend has ``choose(problem) -> Choice`` and ``run(problem, choice)``, and the same two for gradients. A kernel
takes its tiles from the choice; what is measured on a GPU takes the place of the planned tiles in it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from attenio.planning.plan import Dataflow, Tiles

LIBRARY = "PyTorch's own scaled_dot_product_attention"
READ_ONCE = "rows are few, so keys are read once whatever the tiles; runs are as long as workers have keys to share"


class Split(NamedTuple):
    """Keys from ``first`` up to ``stop``, in ``splits`` runs of ``keys`` at most."""

    first: int
    stop: int
    keys: int
    splits: int


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Dataflow and tiles as they run; the kernel, what it is written in, and its settings; and why it has these.

    ``split`` are the runs that keys are cut into. ``own`` runs over the keys behind a prefix that requests share.
    ``why_not`` says of other kernels why they do not run. ``values_in_keys``: values are the first columns of keys, and
    the kernel reads both at once. ``awaited`` are settings of a better kernel that this one stands in for.
    """

    dataflow: Dataflow
    tiles: Tiles
    language: str
    name: str
    kernel: Any
    why: str
    split: Split | None = None
    own: "Choice | None" = None
    why_not: tuple[str, ...] = ()
    values_in_keys: bool = False
    awaited: Any = None

    @property
    def folds_sinks(self) -> bool:
        """Whether the kernel itself takes sinks; otherwise its outputs are shrunk after it."""
        return self.language in ("Triton", "Gluon", "CUDA C++") and self.name != "attenio_256_rows_kernel"

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers."""
        return {
            "dataflow": self.dataflow.value,
            "tiles": dict(self.tiles),
            "kernel": self.settings(),
            "split": None if self.split is None else self.split._asdict(),
            "own": None if self.own is None else self.own.to_json(),
            "because": self.why,
            "why_not": list(self.why_not),
            "values_in_keys": self.values_in_keys,
        }

    def settings(self) -> dict[str, Any]:
        """What the kernel is and how it is set, by name."""
        kernel = self.kernel
        given = kernel._asdict() if hasattr(kernel, "_asdict") else asdict(kernel)
        given.pop("kernel", None)  # the name says which
        return {"language": self.language, "name": self.name, **given}


class Launch(NamedTuple):
    """A kernel that was launched, with the tiles that it was given."""

    name: str
    settings: dict[str, Any]


_heard: list[Launch] | None = None
# Calls on a CPU with keys of up to so many bytes go to PyTorch's own attention without a further look, as its rule has
# it (cpu/beside.py). None do while launches are recorded. ``attention()`` keeps this number where it reads it fastest.
_short_bytes = 0
_followers: list[Callable[[int], None]] = []


def follow_short_bytes(follow: Callable[[int], None]) -> None:
    """Tell the number now and whenever it is set."""
    _followers.append(follow)
    follow(_short_bytes)


def set_short_bytes(number: int | None = None) -> int:
    """Tell all who follow that it is another number, or the same again; gives the one before."""
    global _short_bytes
    before = _short_bytes
    _short_bytes = before if number is None else number
    for follow in _followers:
        follow(_short_bytes)
    return before


@contextmanager
def launches() -> Iterator[list[Launch]]:
    """Record every launch of this process from here on; replayed launches are not recorded again.

    A test compares them with what was explained.
    """
    global _heard
    _heard, before = [], set_short_bytes(0)
    try:
        yield _heard
    finally:
        _heard = None
        set_short_bytes(before)


def is_heard() -> bool:
    """Whether launches are being recorded."""
    return _heard is not None


def note_launch(name: str, **settings: Any) -> None:
    """Record a launch where the kernel is called, from the arguments that it gets."""
    if _heard is not None:
        _heard.append(Launch(name, settings))
