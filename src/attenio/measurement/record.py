"""Benches kept in a file as they are made: a run that is killed goes on where it was."""

import json
from pathlib import Path
from typing import Any

from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.measurement.result import Bench, Timing


class Record:
    """A JSON list of benches; one is told from another by its workload, its device, and what made it."""

    def __init__(self, path: Path | str, provenance: dict[str, Any]) -> None:
        self.path, self.provenance = Path(path), provenance
        self.benches: list[dict[str, Any]] = _read(self.path)

    def finished(self, workload: str, device: str, software: dict[str, str | None]) -> dict[str, Timing]:
        """The contenders that this very code has timed already, with the same libraries on the same device."""
        earlier = self._find(workload, device, software)
        if earlier is None:
            return {}
        return {
            each["name"]: Timing(
                name=each["name"], samples_ms=tuple(each["samples_ms"]), max_abs_error=each["max_abs_error"]
            )
            for each in earlier["contenders"]
            if each["samples_ms"]
        }

    def keep(self, bench: Bench) -> None:
        """Put a bench into the file, in place of what was known of it before."""
        entry = {**bench.to_json(), "provenance": self.provenance}
        earlier = self._find(entry["workload"], bench.device, bench.software)
        if earlier is None:
            self.benches.append(entry)
        else:
            self.benches[self.benches.index(earlier)] = entry
        write_atomically(self.path, json.dumps(self.benches, indent=1) + "\n")

    def _find(self, workload: str, device: str, software: dict[str, str | None]) -> dict[str, Any] | None:
        wanted = {"workload": workload, "device": device, **software}
        for each in self.benches:
            same_code = all(each["provenance"].get(key) == self.provenance.get(key) for key in ("version", "commit"))
            if same_code and all(each.get(key) == value for key, value in wanted.items()):
                return each
        return None


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        benches = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError):
        benches = None
    if not isinstance(benches, list) or not all(
        isinstance(x, dict) and {"contenders", "provenance"} <= set(x) for x in benches
    ):
        raise InvalidInput(f"{path} holds no benches; give the name of a new file, or of one that bench wrote")
    return benches
