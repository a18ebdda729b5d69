"""Waves of a run, read back: the words of a part's ports, cycle by cycle."""

from collections.abc import Sequence
from pathlib import Path


class Waves:
    """A VCD with one sample a cycle, as compiled models write it."""

    def __init__(self, path: Path) -> None:
        scope: list[str] = []
        self._codes: dict[str, str] = {}
        self._cycles: list[dict[str, int]] = []
        now: dict[str, int] = {}
        for line in path.read_text().splitlines():
            words = line.split()
            if not words:
                continue
            match words[0][0], words:
                case "$", ["$scope", _, name, *_]:
                    scope.append(name)
                case "$", ["$upscope", *_]:
                    scope.pop()
                case "$", ["$var", _, _, code, name, *_]:
                    self._codes[".".join((*scope, name))] = code
                case "#", _:
                    now = dict(now)
                    self._cycles.append(now)
                case "b", [value, code]:
                    now[code] = int(value[1:], 2)
                case "0" | "1", [value]:
                    now[value[1:]] = int(value[0])
                case _:
                    pass

    def places(self, port: str, inside: str) -> list[str]:
        """The instances that have a port, among those whose own name begins so."""
        found = (name.rpartition(".")[0] for name in self._codes if name.rpartition(".")[2] == port)
        return sorted(place for place in found if place.rpartition(".")[2].startswith(inside))

    def words(self, places: Sequence[str], port: str) -> list[list[int]]:
        """The words of a port of some instances in every cycle."""
        codes = [self._codes[f"{place}.{port}"] for place in places]
        return [[cycle.get(code, 0) for code in codes] for cycle in self._cycles]
