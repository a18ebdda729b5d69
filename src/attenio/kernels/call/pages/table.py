"""Which pages hold the keys of which request: a page table and lengths, checked where they are in host memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.checks import WrongType
from attenio.page_tree import Integers, misplaced_page


@dataclass(frozen=True, kw_only=True, eq=False)
class PageTable:
    """Pages of each request, in order (requests, places), and how many keys it has; entries past them mean nothing.

    It is in host memory and does not change, so that calls which share it (the layers of a model) look for what
    requests share once. ``PageTable.of`` makes one of tensors or arrays.
    """

    pages: Integers
    lengths: Integers
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What calls found out about it."""
    _copies: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, pages: Any, lengths: Any) -> "PageTable":
        """Of integers (requests, places) and (requests,); a copy."""
        arrays = [_integers(name, given) for name, given in (("pages", pages), ("lengths", lengths))]
        check_shapes(*(array.shape for array in arrays))
        return cls(pages=arrays[0], lengths=arrays[1])

    def checked(self, page_count: int, page_size: int) -> "PageTable":
        """Itself, if its requests have pages of those that are there, for as many keys as they say."""
        key = ("checked", page_count, page_size)
        if key not in self.plans:
            _check(self.pages, self.lengths, page_count, page_size)
            self.plans[key] = True
        return self

    def begun(self, page_size: int) -> Integers:
        """How many pages each request has begun."""
        begun: Integers = -(-self.lengths // page_size)
        return begun

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Both as 32-bit integers on a device, copied there once."""
        if device not in self._copies:
            tensors = (torch.from_numpy(array.astype(np.int32, order="C")) for array in (self.pages, self.lengths))
            pages, lengths = (tensor.to(device, non_blocking=True) for tensor in tensors)
            self._copies[device] = pages, lengths
        return self._copies[device]


def check_shapes(pages: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    """Raise where a table and lengths do not belong together."""
    if len(pages) != 2 or len(lengths) != 1 or pages[0] != lengths[0]:
        raise InvalidInput(
            f"pages has shape {tuple(pages)} and lengths {tuple(lengths)}; give (requests, places) and (requests,)"
        )


def _integers(name: str, given: Any) -> Integers:
    try:
        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    except (ValueError, TypeError, RuntimeError, NotImplementedError):  # rows of several lengths, or no memory to read
        kind = f"a tensor on {given.device}" if isinstance(given, Tensor) else "no array"
        raise WrongType(f"{name} is {kind}; give integers in host memory, rows as long as each other") from None
    if array.dtype.kind not in "iu":
        raise WrongType(f"{name} is {array.dtype}; give integers")
    return array.astype(np.int64)


def _check(pages: Integers, lengths: Integers, page_count: int, page_size: int) -> None:
    wrong = np.flatnonzero((lengths < 0) | (lengths > pages.shape[1] * page_size))
    if len(wrong):
        at = int(wrong[0])
        raise InvalidInput(
            f"lengths: request {at} has {int(lengths[at]):,} keys, and its {pages.shape[1]:,} pages hold"
            f" {pages.shape[1] * page_size:,}; give it more places in pages, or fewer keys"
        )
    begun = -(-lengths // page_size)
    used = np.arange(pages.shape[1]) < begun[:, None]
    outside = np.argwhere(used & ((pages < 0) | (pages >= page_count)))
    if len(outside):
        request, place = (int(each) for each in outside[0])
        raise InvalidInput(
            f"pages: place {place} of request {request} is page {int(pages[request, place])} of {page_count:,};"
            f" give pages from 0 to {page_count - 1:,}"
        )
    twice = misplaced_page(pages, begun)
    if twice is not None:
        page, one, other = twice
        raise InvalidInput(
            f"pages: page {page} is place {one[1]} of request {one[0]} and place {other[1]} of request {other[0]};"
            " a page that is shared stands at the same place of all tables"
        )
