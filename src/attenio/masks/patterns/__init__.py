"""Where the required scores lie, and what tiles of them cost, without visiting every score."""

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.blocks import BlockPattern
from attenio.masks.patterns.of_mask import band_of, patterns_of
from attenio.masks.patterns.pattern import Pattern
from attenio.masks.patterns.prefix import PrefixedRequests

__all__ = ["Band", "BlockPattern", "Pattern", "PrefixedRequests", "band_of", "patterns_of"]
