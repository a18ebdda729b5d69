"""Buffers that are reserved together, for the length of a ``with`` block."""

from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self


class Residency:
    """What is built on some buffers, and may be used while they are reserved."""

    def __init__(self, *buffers: AbstractContextManager[Any]) -> None:
        self._reserved = buffers

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for buffer in self._reserved:
                stack.enter_context(buffer)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
