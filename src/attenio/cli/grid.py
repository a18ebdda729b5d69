"""Many numbers in one option: ``1K,2K,4K`` or ``1K:1M:x2`` or ``64:256:+64``.

>>> numbers("1K:8K:x2", "n")
(1024, 2048, 4096, 8192)
>>> numbers("64:256:+64,300", "d")
(64, 128, 192, 256, 300)
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby

from attenio.errors import InvalidInput
from attenio.quantities import parse_bytes, parse_count

# What follows the comma of 1,000 or 131,072, and no value that anyone would list.
_THOUSANDS = re.compile(r"0\d+$")
# More values of one option than this is a slip of the keyboard, not a sweep.
_MOST = 1_000_000
_LEAST_FACTOR, _MOST_FACTOR = Fraction(101, 100), 2**40


def numbers(text: str, name: str) -> tuple[int, ...]:
    """The counts that ``text`` stands for, in order, each once."""
    return _expanded(text, name, parse_count)


def sizes(text: str, name: str) -> tuple[int, ...]:
    """The same for sizes in bytes: ``64KB:1MB:x2``."""
    return _expanded(text, name, parse_bytes)


def names(text: str | None, name: str) -> list[str]:
    """Names between commas, each once; none where nothing is said."""
    found = [] if text is None else [part.strip() for part in text.split(",")]
    for each in found:
        _check_there(each, text or "", name)
        if found.count(each) > 1:
            raise InvalidInput(f"{name} {text!r} has {each} more than once; leave one of them out")
    return found


def _check_there(part: str, text: str, name: str) -> None:
    if not part and "," in text:
        raise InvalidInput(f"{name} {text!r} has a comma without a value beside it; add it, or leave the comma out")


def _expanded(text: str, name: str, parse: Callable[[str, str], int]) -> tuple[int, ...]:
    values: dict[int, None] = {}
    parts = text.split(",")
    for at, part in enumerate(parts):
        _check_there(part.strip(), text, name)
        if at and _THOUSANDS.match(part.strip()):
            raise InvalidInput(
                f"{name} {text!r} has the value {part.strip()}: a comma separates values in a sweep;"
                f" write {text.replace(',', '')} or {text.replace(',', '_')} for one number"
            )
        # neighbours of a range may round to the same value, which is no slip
        for value, _ in groupby(_range(part, name, parse) if ":" in part else (parse(part, name),)):
            if value in values:
                raise InvalidInput(f"{name} {text!r} has {value:,} more than once; leave one of them out")
            values[value] = None
            if len(values) > _MOST:
                raise InvalidInput(f"{name} {text!r} has more than {_MOST:,} values; use a larger step")
    return tuple(values)


def _range(part: str, name: str, parse: Callable[[str, str], int]) -> Iterator[int]:
    pieces = [piece.strip() for piece in part.split(":")]
    if len(pieces) != 3 or pieces[2][:1] not in ("x", "+"):
        raise InvalidInput(f"{name} {part!r} is not a range; write first:last:x2 or first:last:+64")
    first, last = parse(pieces[0], name), parse(pieces[1], name)
    if first < 1 or last < first:
        raise InvalidInput(f"{name} {part!r} goes from {first:,} to {last:,}; start at 1 or more and end no lower")
    if pieces[2][0] == "+":
        step = parse(pieces[2][1:], f"step of {name}")
        if step < 1:
            raise InvalidInput(f"step of {name} is {step:,}; it must be at least 1")
        yield from range(first, last + 1, step)
        return
    factor = _factor(pieces[2][1:], name)
    # Exact, so that 1:1M:x1.5 does not depend on rounding; small values that round alike are given once.
    value = Fraction(first)
    while value <= last:
        yield round(value)
        value *= factor


def _factor(text: str, name: str) -> Fraction:
    try:
        factor = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(f"factor of {name} is {text!r}; write a number above 1 such as x2 or x1.5") from None
    if not _LEAST_FACTOR <= factor <= _MOST_FACTOR:
        raise InvalidInput(f"factor of {name} is {text}; give one from {float(_LEAST_FACTOR)} to {_MOST_FACTOR:,}")
    return factor
