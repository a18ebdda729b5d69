"""Attributes of values as JSON has them.

>>> from attenio.machine import MemoryLevel
>>> plain_fields(MemoryLevel(name="SRAM", capacity_bytes=1024), "name", "units")
{'name': 'SRAM', 'units': 1}
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any


def plain_fields(value: object, *names: str) -> dict[str, Any]:
    """The named attributes: members of enums by their values, tuples as lists, mappings as dictionaries."""
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
