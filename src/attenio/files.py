"""Files that are either whole or not there: an interrupted run never leaves a broken one."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from attenio.errors import InvalidInput
from attenio.names import show_value


def cache_folder() -> Path:
    """Where what takes long to make is kept, in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attenio"


def write_atomically(path: Path | str, content: str | bytes | Iterable[str]) -> Path:
    """Write ``content`` beside ``path`` and rename it into place; returns the path written.

    Content that comes in pieces is written as it comes, so that a file may be larger than memory. Until the rename the
    old file stays as it was; after an error or Ctrl-C nothing is left behind.
    """
    named = Path(path)
    pieces = [content] if isinstance(content, str | bytes) else content
    try:
        # A link keeps pointing where it pointed; a device or pipe (/dev/stdout) has no place to rename into.
        target = named.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            with named.open("wb") as stream:
                _write(stream, pieces)
            return named
        if target.is_dir():
            raise InvalidInput(f"{named} is a folder; give the name of a file in it")
        if not target.parent.is_dir():
            raise InvalidInput(f"cannot write {named}: folder {named.parent} does not exist; create it first")
        _write_and_rename(target, pieces)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidInput(f"cannot write {named}: {reason}; choose another place") from error
    return named


def checked_path(value: object) -> Path:
    """The path that a value is, or an error that says it is none."""
    if not isinstance(value, str | Path):
        raise InvalidInput(f"the file to read or write is {show_value(value)}; give its path")
    return Path(value)


def _write(stream: IO[bytes], pieces: Iterable[str | bytes]) -> None:
    for piece in pieces:
        stream.write(piece.encode("utf-8") if isinstance(piece, str) else piece)


def _write_and_rename(target: Path, pieces: Iterable[str | bytes]) -> None:
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            _write(stream, pieces)
            stream.flush()
            # Without this a crash of the computer may keep the rename and lose the content.
            os.fsync(stream.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
