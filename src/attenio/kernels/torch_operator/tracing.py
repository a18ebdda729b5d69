"""What a compiler traces in place of a function in C.

``torch.compiler.substitute_in_graph`` says so to Dynamo, and imports it, which takes seconds. So it is said when
somebody else has imported it: nobody traces before.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

_DYNAMO = "torch._dynamo"


def trace_in_place_of(function: Callable[..., Any], python: Callable[..., Any]) -> None:
    """Have compilers trace ``python`` where ``function`` is called."""

    def say() -> None:
        torch.compiler.substitute_in_graph(function, can_constant_fold_through=False, skip_signature_check=True)(python)

    if hasattr(sys.modules.get(_DYNAMO), "substitute_in_graph"):
        say()
    else:
        sys.meta_path.insert(0, _AfterDynamo(say))


class _AfterDynamo(MetaPathFinder):
    """Finds no module of its own, and does something after Dynamo was loaded."""

    def __init__(self, then: Callable[[], None]) -> None:
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
            del loader.exec_module
            load(module)
            self._then()

        loader.exec_module = exec_module
        return spec
