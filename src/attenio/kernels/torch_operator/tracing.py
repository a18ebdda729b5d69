"""What a compiler traces in place of a function in C, and what it takes for a constant.

``torch.compiler`` says so to Dynamo, and imports it, which takes seconds. So it is said when somebody else has imported
it: nobody traces before.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])
_DYNAMO = "torch._dynamo"


def trace_in_place_of(function: Callable[..., Any], python: Callable[..., Any]) -> None:
    """Have compilers trace ``python`` where ``function`` is called."""

    def say() -> None:
        torch.compiler.substitute_in_graph(function, can_constant_fold_through=False, skip_signature_check=True)(python)

    _once_there(say)


def trace_as_constant(function: F) -> F:
    """Have compilers call a function once, while they trace, and keep its result."""
    _once_there(lambda: torch.compiler.assume_constant_result(function))
    return function


def _once_there(say: Callable[[], object]) -> None:
    if hasattr(sys.modules.get(_DYNAMO), "substitute_in_graph"):
        say()
    else:
        sys.meta_path.insert(0, _AfterDynamo(say))


class _AfterDynamo(MetaPathFinder):
    """Finds no module of its own, and does something after Dynamo was loaded."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _DYNAMO or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # where two of these wait, the first has taken both off
            load(module)
            self._then()

        loader.exec_module = exec_module
        return spec
