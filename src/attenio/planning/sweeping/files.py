"""Results on disk: finished chunks beside the output until it is complete, then the output in one piece."""

import csv
import io
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from attenio.errors import InvalidInput, MissingExtra
from attenio.files import write_atomically
from attenio.planning.sweeping.columns import ABSENT
from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.result import PlannedPoints, SweepResult, result_columns
from attenio.quantities import show_count

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
# Raised when a chunk's columns or their meaning change, so that parts of an older attenio are not mixed in.
_PARTS_VERSION = 1


def format_of(path: Path) -> str:
    """The format that a file name asks for; MissingExtra if it cannot be written here."""
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InvalidInput(f"output {path} ends in {path.suffix or 'nothing'}; use .parquet, .csv, .json or .jsonl")
    if kind == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401 - only to see whether it is there
        except ImportError:
            raise MissingExtra("writing Parquet", "parquet") from None
    return kind


def refuse_finished(path: Path) -> None:
    """Raise where a file with something in it is there, and no sweep that was stopped has left chunks beside it."""
    if path.is_file() and path.stat().st_size and not path.with_name(f"{path.name}.parts").exists():
        raise InvalidInput(f"{path} is there already; choose another file, or delete it to plan anew")


@dataclass(frozen=True)
class FinishedChunks:
    """The folder with finished chunks of a sweep; without a path nothing is kept."""

    folder: Path | None
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def beside(cls, path: Path | None, grid: SweepGrid, chunk: int) -> "FinishedChunks":
        """The chunks beside an output: a sweep of the same grid goes on from them, another is refused."""
        if path is None:
            return cls(None, result_columns(grid))
        folder = path.with_name(f"{path.name}.parts")
        about = {"version": _PARTS_VERSION, "grid": grid.fingerprint, "chunk": chunk, "points": len(grid)}
        notes: tuple[str, ...] = ()
        if folder.exists():
            done = len(list(folder.glob("*.npz")))
            chunks = show_count(done, "finished chunk")
            if _read_json(folder / "grid.json") == about:
                notes = (f"{folder} has {chunks} of this sweep; going on from there",)
            elif done:
                raise InvalidInput(
                    f"{folder} has {chunks} of an unfinished sweep of another grid; choose another"
                    " file, or delete that folder to begin anew"
                )
        target = path.resolve()
        if not target.parent.is_dir():
            missing = target.parent if path.is_symlink() else path.parent
            raise InvalidInput(f"cannot write {path}: folder {missing} does not exist; create it first")
        if target.exists() and not target.is_file():
            raise InvalidInput(f"{path} is no plain file; give the name of one, or of a new one")
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InvalidInput(f"cannot write {path}: no parts beside it ({reason}); choose another place") from error
        write_atomically(folder / "grid.json", json.dumps(about))
        return cls(folder, result_columns(grid), notes)

    def load(self, number: int) -> PlannedPoints | None:
        """A finished chunk, or None if it is not there or damaged."""
        path = self._path(number)
        if path is None or not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                numbers = {name: stored[name] for name in self.columns}
                return PlannedPoints(numbers, stored["reason"], tuple(stored["reasons"].tolist()))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def save(self, number: int, planned: PlannedPoints) -> None:
        """Keep a finished chunk."""
        path = self._path(number)
        if path is not None:
            stream = io.BytesIO()
            arrays: dict[str, Any] = {**planned.numbers, "reason": planned.reason}
            np.savez_compressed(stream, reasons=np.array(planned.reasons, dtype=np.str_), **arrays)
            write_atomically(path, stream.getvalue())

    def remove(self) -> None:
        """Clear the chunks away, once the output is complete."""
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path | None:
        return None if self.folder is None else self.folder / f"{number:06d}.npz"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def export(result: SweepResult, path: Path) -> None:
    """Write a result in the format of its file name, beside the old file until it is complete."""
    kind = format_of(path)
    with _beside(path) as stream:
        if kind == "parquet":
            _write_parquet(result, stream)
            return
        with io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True) as text:
            match kind:
                case "csv":
                    writer = csv.writer(text, lineterminator="\n")
                    for number, row in enumerate(result.rows()):
                        if number == 0:
                            writer.writerow(row)
                        writer.writerow(row.values())
                case "jsonl":
                    text.writelines(json.dumps(row) + "\n" for row in result.rows())
                case _:
                    text.write("[\n")
                    for number, row in enumerate(result.rows()):
                        text.write((",\n" if number else "") + json.dumps(row))
                    text.write("\n]\n")


def _write_parquet(result: SweepResult, stream: IO[bytes]) -> None:
    import pyarrow
    import pyarrow.parquet

    writer = None
    for columns in result.blocks():
        arrays = {}
        for name, values in columns.items():
            if values.dtype.kind == "O":
                arrays[name] = pyarrow.array(values, type=pyarrow.string()).dictionary_encode()
            else:
                missing = np.isnan(values) if values.dtype.kind == "f" else values == ABSENT
                arrays[name] = pyarrow.array(values, mask=missing)
        table = pyarrow.table(arrays)
        writer = writer or pyarrow.parquet.ParquetWriter(stream, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


@contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` once it is complete, and leaves nothing behind otherwise."""
    target = path.resolve()  # a link keeps pointing where it pointed
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            yield stream
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # a crash of the computer must not keep the rename and lose the content
        finally:
            os.close(descriptor)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
