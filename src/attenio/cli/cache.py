"""How keys are kept and what is done to scores: options of the commands that plan sequences and requests on pages."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.options import option_field
from attenio.cli.question import Question
from attenio.errors import InvalidInput
from attenio.quantities import checked_count, parse_count

if TYPE_CHECKING:
    from attenio.paging import PagedWorkload
    from attenio.workload import Workload

_PAGED = ("page_size", "requests", "shared_prefix", "page_table", "new")
_PANEL, _DEFAULT_PAGE = "Cache", "64"
# What requests on pages have no say in, and what to do about it.
_ELSEWHERE = {
    "n": "give the keys of each request with --requests",
    "queries": "give new tokens with --new",
    "mask": "a new token sees the keys up to its own",
    "tolerance": "pages are planned exactly",
    "entry_bound": "pages are planned exactly",
}


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The options as typed."""

    kv_bits: str | None = option_field(
        "Bits of an entry of keys and values, such as 8 (default: those of --dtype).", "COUNT", panel=_PANEL
    )
    sinks: bool = option_field("A sink for each query head.", panel=_PANEL, default=False)
    softcap: str | None = option_field("A cap on scores, such as 50; it moves nothing.", "NUMBER", panel=_PANEL)
    page_size: str | None = option_field(
        f"Requests whose keys lie in pages of so many (default {_DEFAULT_PAGE} with any option below).",
        "COUNT",
        panel=_PANEL,
    )
    requests: str | None = option_field(
        "Keys of each request on pages, such as 64x8K or 8K,4K, or a JSON file (default: --batch of --keys).",
        "COUNTS|PATH",
        panel=_PANEL,
    )
    shared_prefix: str | None = option_field("The first keys, which all requests share.", "COUNT", panel=_PANEL)
    page_table: str | None = option_field(
        "A JSON file with the pages of each request, shared ones in several.", "PATH", panel=_PANEL
    )
    new: str | None = option_field(
        "New tokens of each request, the last of its keys (default 1).", "COUNTS", panel=_PANEL
    )

    @property
    def has_pages(self) -> bool:
        """Whether requests on pages are asked about."""
        return any(getattr(self, name) is not None for name in _PAGED)

    @property
    def has_forms(self) -> bool:
        """Whether anything but plain attention is asked about."""
        return self.kv_bits is not None or self.sinks or self.softcap is not None

    def applied(self, workload: "Workload") -> "Workload":
        """The workload with what these options say."""
        return replace(workload, **self._forms()) if self.has_forms else workload

    def refuse_pages(self, what: str) -> None:
        """Refuse pages where only sequences are asked about."""
        if self.has_pages:
            given = next(name for name in _PAGED if getattr(self, name) is not None).replace("_", "-")
            raise InvalidInput(f"{what} no pages; leave --{given} out, or ask attenio plan, bounds or run about them")

    def paged_workload(self, question: Question, default_keys: int) -> "PagedWorkload":
        """The requests on pages, with heads and widths of the question; a model's are those of its decode."""
        from attenio.paging import PagedWorkload

        _refuse_elsewhere(question)
        lengths = _lengths(self.requests)
        keys = str(max(lengths)) if lengths else question.keys
        base = replace(question, decode=True, keys=keys).workload(default_keys)
        rest: dict[str, Any] = {
            name: getattr(base, name)
            for name in ("d", "value_dim", "heads", "kv_heads", "dtype", "accumulator", "scale", "values_in_keys")
        }
        rest |= {"sinks": base.sinks, "softcap": base.softcap} | self._forms()
        rest["page_size"] = parse_count(_DEFAULT_PAGE if self.page_size is None else self.page_size, "page-size")
        if self.new is not None:
            rest["new"] = counts_from(self.new, "new")
        lengths = lengths or (base.keys,) * base.batch
        if self.shared_prefix is None:
            return PagedWorkload(lengths=lengths, table=table_from(self.page_table), **rest)
        if self.page_table is not None:
            raise InvalidInput("--shared-prefix makes a table; leave it or --page-table out")
        return PagedWorkload.of_prefix(parse_count(self.shared_prefix, "shared-prefix"), lengths=lengths, **rest)

    def _forms(self) -> dict[str, Any]:
        forms: dict[str, Any] = {}
        if self.kv_bits is not None:
            forms["kv_bits"] = parse_count(self.kv_bits, "kv-bits")
        if self.sinks:
            forms["sinks"] = True
        if self.softcap is not None:
            forms["softcap"] = softcap_from(self.softcap)
        return forms


def _refuse_elsewhere(question: Question) -> None:
    for name, instead in _ELSEWHERE.items():
        if getattr(question, name) is not None:
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option} {getattr(question, name)} is not for pages: {instead}; leave it out")
    if question.direction not in (None, "forward"):
        raise InvalidInput(f"pages are planned forward, and --direction says {question.direction}; leave it out")


def softcap_from(text: str) -> float:
    """A cap as people write it."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"softcap is {text!r}; give a number such as 50") from None


def counts_from(text: str, name: str) -> tuple[int, ...]:
    """Numbers between commas; 64x8K is 8K, 64 times."""
    counts: list[int] = []
    for each in text.split(","):
        times, cross, size = each.partition("x")
        if not times or (cross and not size):
            raise InvalidInput(f"{name} is {text!r}; give numbers between commas, such as 300,70 or 64x8K")
        repeats = checked_count(f"how often {name} has {size}", parse_count(times, name), most=2**20) if cross else 1
        counts += [parse_count(size if cross else each, name)] * repeats
    return tuple(counts)


def _lengths(text: str | None) -> tuple[int, ...]:
    """Lengths as people write them, or those of a JSON file: a list of numbers."""
    if text is None or not text.lower().endswith(".json"):
        return () if text is None else counts_from(text, "requests")
    try:
        return tuple(_whole(length) for length in _list_in(text))
    except OSError as error:
        raise InvalidInput(f"cannot read the requests {text}: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"the requests {text} are not a list of whole numbers, such as [8192, 4096]") from None


def table_from(path: str | None) -> tuple[tuple[int, ...], ...]:
    """The table in a JSON file: a list of pages for each request."""
    if path is None:
        return ()
    try:
        return tuple(tuple(_whole(page) for page in row) for row in _list_in(path))
    except OSError as error:
        raise InvalidInput(f"cannot read the table {path}: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            f"the table {path} is not a list of lists of page numbers, such as [[0, 1], [0, 2]]"
        ) from None


def _list_in(path: str) -> list[Any]:
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(found, list):
        raise TypeError
    return found


def _whole(number: Any) -> int:
    """A number of a JSON file as it stands there: 1.5, true and "1" are none."""
    if type(number) is not int:
        raise TypeError
    return number
