"""``PagedCache``: keys and values of many requests in pages that forks share until one of them writes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.checks import TensorMismatch
from attenio.kernels.call.pages.bits import rounded, scales_for
from attenio.kernels.call.pages.book import Changes, PageBook
from attenio.kernels.call.pages.problem import MOST_PAGE, REDUCED
from attenio.kernels.call.pages.table import PageTable
from attenio.quantities import show_shape


class PagedCache:
    """Pages of keys and values for every layer, and the requests that have them.

    ``append`` writes new keys behind those of requests, ``fork`` makes a request that shares all pages of another,
    ``free`` gives pages back. A page has as many owners as requests have it; one that is shared is copied before it is
    written, which only the last page of a request ever is. ``dtype`` is that of pages: in float8_e4m3fn or int8 keys
    are rounded when they are appended, with one factor a page and head.

    >>> cache = PagedCache(pages=8, page_size=16, kv_heads=2, width=4)
    >>> prompt = cache.open()
    >>> cache.append([prompt], torch.randn(1, 2, 20, 4), torch.randn(1, 2, 20, 4))
    >>> answer = cache.fork(prompt)
    >>> cache.append([prompt, answer], torch.randn(2, 2, 1, 4), torch.randn(2, 2, 1, 4))
    >>> cache.lengths([prompt, answer]), cache.free_pages
    ([21, 21], 5)
    """

    def __init__(  # noqa: PLR0913 - sizes by name
        self,
        *,
        pages: int,
        page_size: int = 64,
        kv_heads: int,
        width: int | tuple[int, int],
        layers: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not 1 <= page_size <= MOST_PAGE:
            raise InvalidInput(f"pages of {page_size:,} keys; give 1 to {MOST_PAGE}")
        d, value_width = (width, width) if isinstance(width, int) else width
        if min(pages, kv_heads, layers, d, value_width) < 1:
            raise InvalidInput(
                f"a cache of {pages} pages, {kv_heads} KV heads, {layers} layers and {width} columns holds nothing;"
                " give at least 1 of each"
            )
        self.page_size, self.dtype = page_size, dtype
        shape = (pages, page_size, kv_heads)
        self.keys = [torch.zeros((*shape, d), dtype=dtype, device=device) for _ in range(layers)]
        self.values = [torch.zeros((*shape, value_width), dtype=dtype, device=device) for _ in range(layers)]
        factors = layers if dtype in REDUCED else 0
        self._scales = [
            tuple(torch.zeros((pages, kv_heads), dtype=torch.float32, device=device) for _ in range(2))
            for _ in range(factors)
        ]
        self.book = PageBook(pages, page_size)
        self._lengths: dict[int, list[int]] = {}
        self._tables: dict[tuple[tuple[int, ...], tuple[int, ...]], PageTable] = {}
        self._tables_version = -1
        self._slots: tuple[tuple[int, tuple[int, ...], tuple[int, ...], int], Tensor] | None = None

    @property
    def free_pages(self) -> int:
        """Pages that no request has."""
        return self.book.free_pages

    @property
    def requests(self) -> tuple[int, ...]:
        """Requests that are open."""
        return self.book.requests

    def open(self) -> int:
        """A request without keys: its number."""
        request = self.book.open()
        self._lengths[request] = [0] * len(self.keys)
        return request

    def fork(self, request: int) -> int:
        """A request with the same keys, in the same pages."""
        twin = self.book.fork(request)
        self._lengths[twin] = list(self._lengths[request])
        return twin

    def free(self, request: int) -> None:
        """Close a request; its number is not given again."""
        self.book.free(request)
        del self._lengths[request]

    def crop(self, request: int, length: int) -> None:
        """Forget the keys of a request past the first ``length``, in all layers."""
        pages, most = self.book.pages(request), max(self._lengths[request])
        if not 0 <= length <= most:
            raise InvalidInput(f"request {request} has {most:,} keys and cannot be cropped to {length:,}; give fewer")
        self.book.crop(request, min(len(pages), -(-length // self.page_size)))
        self._lengths[request] = [min(length, each) for each in self._lengths[request]]

    def lengths(self, requests: Sequence[int], layer: int = 0) -> list[int]:
        """Keys of requests in a layer."""
        for request in requests:
            self.book.pages(request)
        return [self._lengths[request][layer] for request in requests]

    def scales(self, layer: int = 0) -> tuple[Tensor, Tensor] | None:
        """What entries of keys and values of a layer are multiplied by, where they have 8 bits; as ``page_scales``."""
        if not self._scales:
            return None
        of_keys, of_values = self._scales[layer]
        return of_keys, of_values

    def table(self, requests: Sequence[int], layer: int = 0) -> PageTable:
        """What ``attention(..., pages=)`` takes for some requests; the same value for layers that are as long."""
        lengths = self.lengths(requests, layer)
        if self._tables_version != self.book.version:
            self._tables, self._tables_version = {}, self.book.version
        key = (tuple(requests), tuple(lengths))
        if key not in self._tables:
            self._tables.clear()  # lengths grow: earlier ones do not come again
            rows = [self.book.pages(request) for request in requests]
            pages = np.full((len(rows), max([1, *map(len, rows)])), -1, dtype=np.int64)
            for into, row in zip(pages, rows, strict=True):
                into[: len(row)] = row
            self._tables[key] = PageTable(pages=pages, lengths=np.array(lengths, dtype=np.int64))
        return self._tables[key]

    def append(self, requests: Sequence[int], key: Tensor, value: Tensor, *, layer: int = 0) -> None:
        """Write new keys and values (requests, KV heads, new tokens, width) of a layer behind those that are there."""
        for name, given, pool in (("key", key, self.keys[layer]), ("value", value, self.values[layer])):
            wanted = (len(requests), pool.shape[2], key.shape[2] if key.dim() == 4 else -1, pool.shape[3])
            if tuple(given.shape) != wanted:
                raise TensorMismatch(
                    f"{name} is {show_shape(given.shape)}; give (requests, KV heads, new tokens, width), {wanted}"
                )
            if given.requires_grad and torch.is_grad_enabled():
                raise InvalidInput(f"{name} requires a gradient, and a cache keeps none; append under torch.no_grad()")
        new, before = int(key.shape[2]), self.lengths(requests, layer)
        if not new or not len(requests):
            return
        self._apply(self.book.prepare([(each, at, at + new) for each, at in zip(requests, before, strict=True)]))
        scales, slots = self.scales(layer), self._slots_of((self.book.version, tuple(requests), tuple(before), new))
        for index, (pool, given) in enumerate(((self.keys[layer], key), (self.values[layer], value))):
            rows = given.detach().transpose(1, 2).flatten(0, 1)
            if scales is None:
                pool.view(-1, *pool.shape[2:])[slots.to(pool.device)] = rows.to(pool.dtype)
            else:
                _write_rounded(pool, scales[index], slots, rows)
        for request in requests:
            self._lengths[request][layer] += new

    def _slots_of(self, asked: tuple[int, tuple[int, ...], tuple[int, ...], int]) -> Tensor:
        """Where new keys behind some lengths of requests go, found once for the layers that are as long."""
        if self._slots is None or self._slots[0] != asked:
            _, requests, before, new = asked
            places = np.add.outer(np.array(before), np.arange(new))
            pages = np.array([[self.book.pages(each)[at // self.page_size] for at in row] for each, row in
                              zip(requests, places.tolist(), strict=True)])  # fmt: skip
            slots = torch.from_numpy((pages * self.page_size + places % self.page_size).ravel())
            self._slots = asked, slots.to(self.keys[0].device)
        return self._slots[1]

    def gathered(self, requests: Sequence[int], layer: int = 0) -> tuple[Tensor, Tensor]:
        """Keys and values (requests, KV heads, keys, width) as a copy; zeros past the last key."""
        table = self.table(requests, layer)
        pages = torch.from_numpy(np.maximum(table.pages, 0)).to(self.keys[layer].device)
        lengths = torch.from_numpy(table.lengths).to(pages.device)
        most = int(table.lengths.max(initial=0))
        past = torch.arange(most, device=pages.device) >= lengths[:, None]
        scales, both = self.scales(layer), []
        for index, pool in enumerate((self.keys[layer], self.values[layer])):
            some = pool.view(torch.uint8)[pages].view(pool.dtype) if pool.dtype == REDUCED[0] else pool[pages]
            if scales is not None:
                some = some.float() * scales[index][pages][:, :, None, :, None]
            whole = some.flatten(1, 2)[:, :most].transpose(1, 2)
            both.append(whole.masked_fill(past[:, None, :, None], 0.0))
        return both[0], both[1]

    def _apply(self, changes: Changes) -> None:
        """Copy pages that were shared, and forget the factors of those that were free."""
        if self._scales and changes.fresh:
            fresh = torch.tensor(changes.fresh)
            for pair in self._scales:
                for scales in pair:
                    scales[fresh.to(scales.device)] = 0.0
        if changes.copies:
            old, new = (torch.tensor(each, device=self.keys[0].device) for each in zip(*changes.copies, strict=True))
            for pool in (*self.keys, *self.values, *(scales for pair in self._scales for scales in pair)):
                bits = pool.view(torch.uint8) if pool.dtype == REDUCED[0] else pool
                bits[new] = bits[old]


def _write_rounded(pool: Tensor, scales: Tensor, slots: Tensor, rows: Tensor) -> None:
    """Write rows of 8 bits; where one is larger than its page's factor reaches, what is there is scaled again."""
    size = pool.shape[1]
    touched, inverse = torch.unique(slots // size, return_inverse=True)
    here, at = touched.to(pool.device), inverse.to(pool.device)
    largest = rows.abs().amax(-1).float()
    most = largest.new_zeros((len(touched), pool.shape[2]))
    most.scatter_reduce_(0, at[:, None].expand_as(largest), largest, "amax")
    before = scales[here]
    # No comparison with NaN: a page with a NaN has no factor either.
    after = torch.maximum(before, scales_for(most, pool.dtype))
    bits = pool.view(torch.uint8) if pool.dtype == REDUCED[0] else pool
    wide = bits[here].view(pool.dtype).float() * before[:, None, :, None]
    wide[at, (slots % size).to(pool.device)] = rows.float()
    bits[here] = rounded(wide, after, pool.dtype).view(bits.dtype)
    scales[here] = after
