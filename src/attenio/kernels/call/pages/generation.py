"""A ``PagedCache`` as the cache of ``generate`` in Hugging Face transformers.

from attenio.kernels.transformers import GenerationCache
cache = GenerationCache.of(model.config, pages=1024)
model.generate(**inputs, past_key_values=cache)

Rows of a batch are requests. Beams and samples of one prompt are forks: they share its pages, and attention reads those
once. With ``attn_implementation="attenio"`` keys are read in their pages; under a mask by a tensor (padding)
they are gathered first, and so they are for every layer with ``gathers=True``: any implementation of attention takes
that, and so do models that cache a latent.
"""

from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput, MissingExtra
from attenio.kernels.call.pages.cache import PagedCache
from attenio.kernels.call.pages.views import KeysInPages

try:
    from transformers.cache_utils import Cache, CacheLayerMixin
except ImportError:
    raise MissingExtra("a paged cache for Hugging Face transformers", "transformers") from None


class GenerationCache(Cache):  # type: ignore[misc, unused-ignore]
    """The requests of one batch in a ``PagedCache``, which several of these may share."""

    def __init__(self, pages: PagedCache, *, gathers: bool = False) -> None:
        self.pages, self.gathers, self.requests = pages, gathers, list[int]()
        super().__init__(layers=[_Layer(self, index) for index in range(len(pages.keys))])

    @classmethod
    def of(
        cls, config: Any, *, pages: int, page_size: int = 64, gathers: bool = False, **options: Any
    ) -> "GenerationCache":
        """For a model of this configuration; ``options`` are the ``dtype`` and ``device`` of a ``PagedCache``."""
        config = config.get_text_config(decoder=True)
        rank = getattr(config, "kv_lora_rank", None)
        heads = 1 if rank else getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        d = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        cache = PagedCache(
            pages=pages, page_size=page_size, kv_heads=heads, width=(rank, config.qk_rope_head_dim) if rank else d,
            layers=config.num_hidden_layers, **options,
        )  # fmt: skip
        return cls(cache, gathers=gathers or bool(rank))

    def free(self) -> None:
        """Give all pages back."""
        while self.requests:
            self.pages.free(self.requests.pop())

    def reset(self) -> None:
        """The same: the next batch begins anew."""
        self.free()

    def crop(self, tokens_to_remove: int) -> None:
        """Forget so many of the last tokens of all requests, given below zero; above zero, so many are left.

        Both are ways of transformers: older releases say how many are left.
        """
        for request, length in zip(self.requests, self.pages.lengths(self.requests), strict=True):
            left = tokens_to_remove if tokens_to_remove > 0 else length + tokens_to_remove
            self.pages.crop(request, max(0, min(length, left)))

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Requests become forks of those that were picked."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every request so many times, as forks."""
        self._pick([at for at in range(len(self.requests)) for _ in range(repeats)])

    def batch_select_indices(self, indices: Tensor) -> None:
        """Only some requests, in another order, any of them several times."""
        at = indices.nonzero()[:, 0] if indices.dtype == torch.bool else indices
        self._pick(at.tolist())

    def _pick(self, places: list[int]) -> None:
        before, left = self.requests, set(range(len(self.requests)))
        picked = []
        for at in places:
            picked.append(before[at] if at in left else self.pages.fork(before[at]))
            left.discard(at)
        for at in left:
            self.pages.free(before[at])
        self.requests = picked


class _Layer(CacheLayerMixin):  # type: ignore[misc, unused-ignore]
    """One layer of it, as transformers asks for it."""

    is_sliding, is_croppable, supports_early_init = False, True, False

    def __init__(self, home: GenerationCache, index: int) -> None:
        super().__init__()
        self._home, self._index = home, index

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Requests are opened for the rows of the first batch."""
        home = self._home
        if not home.requests:
            home.requests = [home.pages.open() for _ in range(key_states.shape[0])]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append, and hand over where the keys are: views that ``attn_implementation="attenio"`` reads."""
        self.lazy_initialization(key_states, value_states)
        home, pages = self._home, self._home.pages
        if len(home.requests) != key_states.shape[0]:
            raise InvalidInput(
                f"the cache has {len(home.requests)} requests and the batch {key_states.shape[0]} rows;"
                " make another cache, or call free() before the next batch"
            )
        pages.append(home.requests, key_states, value_states, layer=self._index)
        if home.gathers:
            key, value = pages.gathered(home.requests, self._index)
            return key.to(key_states.dtype), value.to(value_states.dtype)
        return KeysInPages.both(pages, tuple(home.requests), self._index, key_states.dtype)

    def get_seq_length(self) -> int:
        """Tokens of a request so far."""
        requests = self._home.requests
        return max(self._home.pages.lengths(requests, self._index)) if requests else 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys of the next step, and where they begin."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """None: pages are what ends."""
        return -1
