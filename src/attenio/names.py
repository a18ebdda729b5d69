"""Members of enums by their names, what someone probably meant by an unknown one, and values of the wrong kind."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from attenio.errors import InvalidInput

_Member = TypeVar("_Member", bound=Enum)
_Kind = TypeVar("_Kind")
_NO_NICKNAMES: Mapping[str, str] = {}
_SHORT = 5
_OTHER_LETTER = 0.65
_SHOWN = 60
_DIGITS = "0123456789"


def member_named(
    members: type[_Member], name: str | _Member, what: str, nicknames: Mapping[str, str] = _NO_NICKNAMES
) -> _Member:
    """The member whose value is ``name``, in upper or lower case; a member is returned as it is.

    An unknown name is refused as an unknown ``what``, with the closest known one or the one it is a nickname of.
    """
    if isinstance(name, members):
        return name
    wanted = str(name).strip().lower()
    known = {str(member.value): member for member in members}
    if wanted in known:
        return known[wanted]
    meant = nicknames.get(wanted.replace("_", "-"), wanted)
    raise InvalidInput(f"unknown {what} {name!r}; {did_you_mean(meant, known)}choose one of {', '.join(known)}")


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or none when nothing is close.

    >>> closest("h10", ["a100", "h100"]), closest("fp64", ["fp16", "fp32"]), closest("circle", ["tiles"])
    ('h100', None, None)
    """
    import difflib  # slow to import, and names are seldom wrong

    by_lower = {each.lower(): each for each in known if not _another_number(name.lower(), each.lower())}
    # of a short name half is soon the same, and few slips are in the first letter: circle is not tiles mistyped
    cutoff = 0.5 if len(name) > _SHORT else 0.7
    for close in difflib.get_close_matches(name.lower(), by_lower, cutoff=cutoff):
        if close[:1] == name[:1].lower() or difflib.SequenceMatcher(None, close, name.lower()).ratio() > _OTHER_LETTER:
            return by_lower[close]
    # difflib compares whole names: a short beginning such as "llama" of a long name scores low, yet is what people type
    beginnings = [candidate for candidate in by_lower if name and candidate.startswith(name.lower())]
    return by_lower[beginnings[0]] if beginnings else None


def _another_number(name: str, candidate: str) -> bool:
    """Whether two names differ in a number that is no slip of the other: fp64 is not fp16 mistyped, h10 may be h100."""
    if name.strip(_DIGITS) != candidate.strip(_DIGITS):
        return False
    if len(name) == len(candidate):
        return sum(one != other for one, other in zip(name, candidate, strict=True)) > 1
    shorter, longer = sorted((name, candidate), key=len)
    rest = iter(longer)
    return not all(character in rest for character in shorter)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean h100?`` and a space, or nothing when no known name is close."""
    near = closest(name, known)
    return f"did you mean {near}? " if near else ""


def check_keywords(callee: str, given: Mapping[str, object], known: type) -> None:
    """Refuse a keyword that is not in ``known``, a TypedDict, as Python refuses it where keywords are spelled out."""
    names = known.__annotations__
    if given.keys() <= names.keys():
        return
    refuse_keyword(callee, next(name for name in given if name not in names), names)


def refuse_keyword(callee: str, name: str, known: Iterable[str], nicknames: Mapping[str, str] = _NO_NICKNAMES) -> None:
    """Refuse a keyword as Python does, with the known one that was probably meant or that it is a nickname of."""
    hint = did_you_mean(nicknames.get(name, name), known).rstrip()
    raise TypeError(f"{callee} got an unexpected keyword argument {name!r}{hint and '; ' + hint}")


def checked_kind(value: object, kind: type[_Kind], what: str, give: str) -> _Kind:
    """``value`` if it is of this kind; else a line that says what it is, and what to give in its place."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{what} is {show_value(value)}; give {give}")
    return value


def show_type(value: object) -> str:
    """What a value is, with its article.

    >>> show_type([1]), show_type(3)
    ('a list', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' or name == 'ndarray' else 'a'} {name}"


def show_value(value: object) -> str:
    """A value in a line that stays short, whatever it is.

    >>> show_value(list(range(1000)))
    'list [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,...'
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{type(value).__name__} {text[:_SHOWN]}..."
