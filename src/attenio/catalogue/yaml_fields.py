"""YAML read with the line of every value kept, so that an error can point at the line that causes it.

Sizes are binary (``512KB`` is 524,288 bytes) and rates decimal (``128 GB/s`` is 128e9), as memories and their rates
are sold. Plain numbers are always bytes, bytes per second, or operations per second.

>>> parse_rate("128 GB/s", "bandwidth_bytes_per_s", unit="B/s")
128000000000.0
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import yaml

from attenio.errors import InvalidInput
from attenio.names import did_you_mean
from attenio.quantities import checked_count, parse_bytes, parse_count

_RATE = re.compile(r"^([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([kKMGTP]?)(i?)\s*(B/s|FLOP/s|FLOPS|/s|Hz|)$")
_THOUSANDS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_RATE_EXAMPLES = {
    "B/s": "128e9 or 128 GB/s",
    "FLOP/s": "4.096e12 or 4.096 TFLOP/s",
    "/s": "128e9 or 128 G/s",
    "Hz": "1e9 or 1 GHz",
}
_ALSO_WRITTEN = {"FLOP/s": ("FLOPS",), "Hz": ("/s",)}
_LARGEST_BYTES = 2**60
# Far more than any file of machines has; libyaml recurses, and ends the process from some ten thousand on.
_DEEPEST = 1_000
_INDENT = re.compile(r"^(?:[-?:]?[ \t])*", re.MULTILINE)

T = TypeVar("T")


def parse_rate(text: str, name: str, *, unit: str) -> float:
    """Something per second as people write it; k, M, G and T are decimal, Ki, Mi and Gi binary."""
    match = _RATE.match(text.strip())
    allowed = ("", unit, *_ALSO_WRITTEN.get(unit, ()))
    if match is None or match[4] not in allowed:
        raise InvalidInput(f"{name} is {text!r}; write a number such as {_RATE_EXAMPLES[unit]}")
    # decimal, so that 2.039 TB/s is 2,039 GB/s and not a hair more
    number = Decimal(match[1].replace(",", "").replace("_", ""))
    rate = float(number * (1024 if match[3] else 1000) ** _THOUSANDS[match[2].upper()])
    if not 0 < rate < math.inf:
        raise InvalidInput(f"{name} is {text!r}; it must be above zero and finite, such as {_RATE_EXAMPLES[unit]}")
    return rate


def sections_in(text: str, place: str) -> "list[Section]":
    """The mappings of a YAML text: one, or a list of them. ``place`` is what errors call the text."""
    if _depth_at_most(text) > _DEEPEST:
        raise InvalidInput(f"{place} is nested too deeply to describe a machine; check the file")
    try:
        root = _composed(text)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidInput(f"{place} line {line}: {problem.problem}; the YAML is broken here, mend it") from None
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, int(problem.position)) + 1
        raise InvalidInput(
            f"{place} line {line}: character {problem.character!r} is not text; save it as UTF-8"
        ) from None
    if root is None:
        raise InvalidInput(f"{place} is empty; describe a machine with name and levels")
    nodes = root.value if isinstance(root, yaml.SequenceNode) else [root]
    if not nodes:
        raise InvalidInput(f"{place} is an empty list; describe a machine with name and levels")
    return [Section.of(node, place) for node in nodes]


def _depth_at_most(text: str) -> int:
    """At least as many levels as the text has: brackets that are open at once, and columns before the first word."""
    deepest = depth = max(len(indent) for indent in _INDENT.findall(text))
    for bracket in re.findall(r"[][{}]", text):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        deepest = max(deepest, depth)
    return deepest


def _composed(text: str) -> yaml.Node | None:
    """By libyaml where PyYAML has it, ten times as fast; what it refuses is told by PyYAML's own parser."""
    root: yaml.Node | None
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (AttributeError, yaml.YAMLError):
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


@dataclass(frozen=True)
class Section:
    """One YAML mapping: its values by key, each knowing its line."""

    place: str
    line: int
    nodes: dict[str, yaml.Node]
    key_lines: dict[str, int]

    @classmethod
    def of(cls, node: yaml.Node, place: str) -> "Section":
        """The mapping that ``node`` is; anything else, and a key given twice, is an error."""
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise InvalidInput(f"{place} line {line}: expected 'key: value' lines, found {_kind(node)}")
        nodes: dict[str, yaml.Node] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, key_line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise InvalidInput(
                    f"{place} line {key_line}: {name} is given again (first on line {lines[name]}); keep one"
                )
            lines[name] = key_line
            if value.tag != "tag:yaml.org,2002:null":
                nodes[name] = value
        return cls(place=place, line=line, nodes=nodes, key_lines=lines)

    def __contains__(self, key: str) -> bool:
        return key in self.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def error(self, message: str, key: str | None = None) -> InvalidInput:
        """An error at the line of ``key``, or of the mapping itself."""
        line = self.key_lines.get(key, self.line) if key is not None else self.line
        return InvalidInput(f"{self.place} line {line}: {message}")

    def only(self, known: tuple[str, ...]) -> None:
        """Refuse keys other than the known ones, suggesting the closest."""
        for key in self.key_lines:
            if key not in known:
                hint = did_you_mean(key, known)
                raise self.error(f"unknown key {key!r}; {hint}known keys are {', '.join(known)}", key)

    def required(self, key: str) -> None:
        """Refuse a mapping without this key."""
        if key not in self.nodes:
            raise self.error(f"{key} is missing; add '{key}: ...'", key)

    def text(self, key: str, default: str = "") -> str:
        """The value as text, its lines joined by single spaces."""
        return " ".join(self._scalar(key).split()) if key in self.nodes else default

    def count(self, key: str, *, most: int = 2**30) -> int:
        """The value as a whole number above zero; ``128K`` works."""
        return self._parsed(key, lambda raw: checked_count(key, parse_count(raw, key), most=most))

    def whole(self, key: str) -> int:
        """The value as a whole number, which whoever takes it holds against its own limits."""
        return self._parsed(key, lambda raw: parse_count(raw, key))

    def size(self, key: str) -> int:
        """The value as bytes; ``512KB`` works."""
        return self._parsed(key, lambda raw: checked_count(key, parse_bytes(raw, key), most=_LARGEST_BYTES))

    def rate(self, key: str, unit: str) -> float | None:
        """The value as something per second; ``128 GB/s`` works; none when the key is absent."""
        if key not in self.nodes:
            return None
        return self._parsed(key, lambda raw: parse_rate(raw, key, unit=unit))

    def section(self, key: str) -> "Section":
        """The mapping under ``key``."""
        return Section.of(self.nodes[key], self.place)

    def sections(self, key: str) -> "list[Section]":
        """The list of mappings under ``key``."""
        node = self.nodes[key]
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(f"{key} is {_kind(node)}; give a list, one '- ' per entry", key)
        return [Section.of(entry, self.place) for entry in node.value]

    def _scalar(self, key: str) -> str:
        node = self.nodes[key]
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(f"{key} is {_kind(node)}; give a single value", key)
        return str(node.value)

    def _parsed(self, key: str, parse: Callable[[str], T]) -> T:
        raw = self._scalar(key)
        try:
            return parse(raw)
        except InvalidInput as problem:
            raise self.error(str(problem), key) from None


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "a mapping" if isinstance(node, yaml.MappingNode) else f"{node.value!r}"
