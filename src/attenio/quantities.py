"""Numbers with units: reading what people type, printing what people read.

>>> parse_count("128K")
131072
>>> parse_bytes("512KB")
524288
>>> words_in(524_288, element_bytes=2)
262144
>>> show_words(1_140_850_688)
'1,140,850,688 words'
"""

import math
import re
from collections.abc import Iterable
from math import floor, log10
from operator import index

from attenio.errors import InvalidInput
from attenio.names import show_value

# Beyond it nobody counts digits.
_IN_FULL = 10**40
_MULTIPLES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# A comma only between thousands: "1024,2048" is two numbers, and reading it as one would be a silent mistake.
_NUMBER = re.compile(
    r"^([+-]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([KMGT]?)(I?B?)$", re.IGNORECASE
)


def words_in(size_bytes: int, *, element_bytes: int) -> int:
    """Whole words of the given width that fit into a number of bytes."""
    return size_bytes // element_bytes


def bytes_of(words: int, *, element_bytes: int) -> int:
    """Bytes that a number of words takes: the one place where words become bytes."""
    return words * element_bytes


def as_count(name: str, value: object) -> object:
    """A count that was given as text, such as "128K", as a number; anything else as it is.

    >>> as_count("n", "128K"), as_count("n", 64)
    (131072, 64)
    """
    return parse_count(value, name) if isinstance(value, str) else value


def as_size(name: str, value: object) -> object:
    """The same for sizes in bytes, which may end in B: "512KB" is "512K".

    >>> as_size("fast-bytes", "512KB")
    524288
    """
    return parse_bytes(value, name) if isinstance(value, str) else value


def checked_count(name: str, value: object, *, least: int = 1, most: int = 2**30) -> int:
    """``value`` as an integer between ``least`` and ``most``, or an error that says which of the two it broke."""
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, float) and math.isnan(value):
            raise InvalidInput(f"{name} is NaN; give a whole number of at least {least:,}")
        try:
            value = int(index(None if isinstance(value, bool) else value))  # type: ignore[arg-type]
        except TypeError:
            raise InvalidInput(f"{name} is {show_value(value)}; give a whole number of at least {least:,}") from None
    if value < least:
        raise InvalidInput(f"{name} is {show_given(value)}; it must be at least {least:,}")
    if value > most:
        raise InvalidInput(
            f"{name} is {show_given(value)}; attenio counts exactly up to {most:,}: use a smaller number"
        )
    return value


def _parse(text: str, name: str, example: str, *, allow_bytes: bool) -> int:
    match = _NUMBER.match(text.strip())
    if match is None or (match[3] and not allow_bytes):
        raise InvalidInput(f"{name} is {text!r}; write a whole number such as {example}")
    if match[3].endswith("b"):
        raise InvalidInput(f"{name} is {text!r}, and b may be bits; write B for bytes, such as {example}")
    plain, multiple = match[1].replace(",", "").replace("_", ""), _MULTIPLES[match[2].upper()]
    near = float(plain) * multiple
    if not math.isfinite(near):
        raise InvalidInput(f"{name} is {text!r}, which is too large; write a number such as {example}")
    if near != math.floor(near):
        raise InvalidInput(f"{name} is {text!r}, which is not whole; write a number such as {example}")
    if plain.lstrip("+-").isdigit():
        return int(plain) * multiple
    from fractions import Fraction  # most numbers have no point and no exponent

    # the fraction of 1e-999999999 would have as many digits
    return int(Fraction(plain) * multiple) if near else 0


def parse_count(text: str, name: str = "count") -> int:
    """A count as people write it; K, M and G are binary, so 128K is 131,072."""
    return _parse(text, name, "4096 or 128K", allow_bytes=False)


def parse_seed(text: str) -> int:
    """The seed of random numbers: a whole number of at least 0."""
    seed = _parse(text, "seed", "0 or 42", allow_bytes=False)
    if seed < 0:
        raise InvalidInput(f"seed is {show_given(seed)}; it must be at least 0")
    return seed


def parse_bytes(text: str, name: str = "size") -> int:
    """A size in bytes as people write it; KB, KiB, MB, MiB and so on are binary."""
    return _parse(text, name, "65536, 64KB or 1.5MB", allow_bytes=True)


def show_count(count: int, what: str) -> str:
    """A count in full, with what it is of.

    >>> show_count(1, "row"), show_count(4096, "row"), show_count(2, "query")
    ('1 row', '4,096 rows', '2 queries')
    """
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what.removesuffix('y')}ies" if what.endswith("ry") else f"{count:,} {what}s"


def show_given(count: int) -> str:
    """A count that somebody gave, in full as far as its digits may be read, and as a power of ten beyond.

    >>> show_given(-5), show_given(2**20), show_given(10**300)
    ('-5', '1,048,576', 'about 10^300')
    """
    return f"{count:,}" if abs(count) < _IN_FULL else show_figures(count)


def show_words(words: int) -> str:
    """A count of words, in full, with its unit."""
    return show_count(words, "word")


def show_bytes(size_bytes: float) -> str:
    """A size in the largest binary unit that keeps at least one digit before the point."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if abs(size_bytes) < 1024 or unit == "EiB":
            return f"{show_figures(size_bytes)} {unit}"
        size_bytes /= 1024
    raise AssertionError("unreachable")


def show_seconds(seconds: float) -> str:
    """A duration in the unit that keeps its digits readable; what took no time at all took 0 s."""
    if seconds == 0.0:
        return "0 s"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{show_figures(seconds / factor)} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def show_joules(joules: float) -> str:
    """An energy in the unit that keeps its digits readable.

    >>> show_joules(1.775e-8), show_joules(0.267438), show_joules(12345.6), show_joules(0.0)
    ('17.75 nJ', '267.4 mJ', '12,346 J', '0 J')
    """
    for factor, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")):
        if joules >= factor:
            return f"{show_figures(joules / factor)} {unit}"
    return f"{joules / 1e-12:.4g} pJ" if joules else "0 J"


def show_minutes(seconds: float) -> str:
    """A long duration as people plan with it, in minutes or in hours.

    >>> show_minutes(40), show_minutes(600), show_minutes(3e4)
    ('1 minute', '10 minutes', '8 hours')
    """
    minutes = seconds / 60
    return f"{minutes / 60:,.0f} hours" if minutes > 120 else f"{max(1, round(minutes))} minute{'s' * (minutes >= 1.5)}"


def show_digits(number: float) -> str:
    """A rate in three digits, or as many as it has before its point, and never with a power of ten.

    >>> show_digits(4813.2), show_digits(98.76), show_digits(2e-5)
    ('4,813', '98.8', '<0.001')
    """
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}" if number >= 0.001 else "<0.001"


def show_figures(number: float) -> str:
    """A measured number in four figures, or as many as it has before its point; a power of ten where that is endless.

    >>> show_figures(95253988.9), show_figures(63.456), show_figures(2.5e-7), show_figures(3.45e30)
    ('95,253,989', '63.46', '2.5e-07', 'about 10^30')
    """
    if abs(number) < 1000:
        return f"{number:.4g}"
    if abs(number) < 1e15:
        return f"{number:,.0f}"
    return f"about {'-' if number < 0 else ''}10^{floor(log10(abs(number)))}"


def show_shape(shape: Iterable[int]) -> str:
    """The shape of an array as people write it.

    >>> show_shape((2, 8, 16)), show_shape((9216,)), show_shape(())
    ('(2, 8, 16)', '(9216)', '()')
    """
    return f"({', '.join(str(size) for size in shape)})"


def show_number(number: float) -> str:
    """A number of a formula: whole and in full from a thousand on, rounded down, and in six digits below.

    >>> show_number(14821500.7), show_number(16.0), show_number(13.96135794)
    ('14,821,500', '16', '13.9614')
    """
    return f"{int(number):,}" if number >= 1000 else f"{number:.6g}"
