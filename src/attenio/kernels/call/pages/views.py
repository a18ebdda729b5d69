"""Keys or values of a layer that stay in their pages: a tensor by shape only, which says what it is when it is used."""

from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.pages.cache import PagedCache


class KeysInPages(Tensor):  # type: ignore[misc]
    """(requests, KV heads, keys, width), without memory of its own. Only attention on pages computes with it."""

    cache: PagedCache
    requests: tuple[int, ...]
    layer: int

    @classmethod
    def both(
        cls, cache: PagedCache, requests: tuple[int, ...], layer: int, dtype: torch.dtype
    ) -> tuple["KeysInPages", "KeysInPages"]:
        """Keys and values of requests."""
        most = max(cache.lengths(requests, layer))
        key, value = (_view(cache, requests, layer, pool, (most, dtype)) for pool in (cache.keys, cache.values))
        return key, value

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Nothing is computed with it by the way."""
        raise InvalidInput(
            f'{function.__name__} is asked of keys that are in pages; use attn_implementation="attenio", or'
            " GenerationCache(..., gathers=True)"
        )


def _view(
    cache: PagedCache, requests: tuple[int, ...], layer: int, pools: list[Tensor], size: tuple[int, torch.dtype]
) -> KeysInPages:
    pool, (most, dtype) = pools[layer], size
    view: KeysInPages = Tensor._make_wrapper_subclass(
        KeysInPages, (len(requests), pool.shape[2], most, pool.shape[3]), dtype=dtype, device=pool.device
    )
    view.cache, view.requests, view.layer = cache, requests, layer
    return view
