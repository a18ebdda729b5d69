"""Who has which pages: reference counts, a list of free ones, and a copy of a shared page before it is written."""

from collections.abc import Sequence
from typing import NamedTuple

from attenio.errors import DoesNotFit, InvalidInput


class Changes(NamedTuple):
    """Pages to be copied, as (from, to), and pages that were free before, those of copies included."""

    copies: tuple[tuple[int, int], ...]
    fresh: tuple[int, ...]


class PageBook:
    """Requests by number, the pages of each in order, and how many requests have a page."""

    def __init__(self, pages: int, page_size: int) -> None:
        self.page_size, self.version = page_size, 0
        self.owners = [0] * pages
        self._free = list(range(pages))[::-1]
        self._pages: dict[int, list[int]] = {}
        self._next = 0

    @property
    def free_pages(self) -> int:
        """Pages that no request has."""
        return len(self._free)

    @property
    def requests(self) -> tuple[int, ...]:
        """Requests that are open."""
        return tuple(self._pages)

    def pages(self, request: int) -> list[int]:
        """The pages of a request, in order."""
        if request not in self._pages:
            raise InvalidInput(f"request {request} is not open; it was freed, or never opened")
        return self._pages[request]

    def open(self) -> int:
        """A request without pages."""
        request, self._next = self._next, self._next + 1
        self._pages[request] = []
        return request

    def fork(self, request: int) -> int:
        """A request with the same pages; none is copied before one of them writes."""
        pages = list(self.pages(request))
        for page in pages:
            self.owners[page] += 1
        twin = self.open()
        self._pages[twin] = pages
        return twin

    def free(self, request: int) -> None:
        """Close a request; pages that no other has are free again."""
        pages = self.pages(request)
        del self._pages[request]
        self._release(pages)

    def crop(self, request: int, count: int) -> None:
        """Leave a request its first ``count`` pages."""
        pages = self.pages(request)
        self._pages[request], rest = pages[:count], pages[count:]
        self._release(rest)

    def prepare(self, writes: Sequence[tuple[int, int, int]]) -> Changes:
        """Pages of their own for requests that write keys from one place up to another: (request, from, to) each.

        Either all of them are there, or nothing has changed.
        """
        if len({request for request, _, _ in writes}) != len(writes):
            raise InvalidInput("a request is named twice; give each once")
        plan: list[tuple[int, int, int | None]] = []
        owners: dict[int, int] = {}
        for request, first, stop in writes:
            pages = self.pages(request)
            for place in range(first // self.page_size, -(-stop // self.page_size) if stop > first else 0):
                if place >= len(pages):
                    plan.append((request, place, None))
                    continue
                page = pages[place]
                owners.setdefault(page, self.owners[page])
                if owners[page] > 1:
                    owners[page] -= 1
                    plan.append((request, place, page))
        if len(plan) > len(self._free):
            raise DoesNotFit(
                f"{len(plan):,} pages of {self.page_size} keys are needed and {len(self._free):,} of"
                f" {len(self.owners):,} are free; free a request, or make a cache of more pages"
            )
        return self._take(plan)

    def _take(self, plan: list[tuple[int, int, int | None]]) -> Changes:
        copies, fresh = [], []
        for request, place, old in plan:
            new = self._free.pop()
            self.owners[new] = 1
            fresh.append(new)
            if old is None:
                self._pages[request].append(new)
            else:
                self.owners[old] -= 1
                self._pages[request][place] = new
                copies.append((old, new))
        self.version += bool(plan)
        return Changes(tuple(copies), tuple(fresh))

    def _release(self, pages: list[int]) -> None:
        for page in pages:
            self.owners[page] -= 1
            if not self.owners[page]:
                self._free.append(page)
        self.version += 1
