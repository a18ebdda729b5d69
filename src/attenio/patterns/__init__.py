"""Where the required scores lie, and what tiles of them cost, without visiting every score."""

from attenio.patterns.band import Band
from attenio.patterns.blocks import BlockPattern
from attenio.patterns.pattern import Pattern
from attenio.patterns.prefix import PrefixedRequests

__all__ = ["Band", "BlockPattern", "Pattern", "PrefixedRequests"]
