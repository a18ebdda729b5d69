"""Attributes that are computed when first asked for."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - used like a builtin decorator
    """``functools.cached_property`` without its lock, which on Python 3.11 takes longer than most of what is cached.

    Two threads that ask at the same time may both compute the value, which is the same.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[Value]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> "lazy[Value] | Value":
        """The value; from then on the instance has it as a plain attribute."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
