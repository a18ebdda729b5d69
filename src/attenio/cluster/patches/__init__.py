"""Causal work as a patchwork: a table says which rank has the pairs of two blocks of tokens, by KV head.

A device that owns early tokens has little to do with them under a causal mask, and one that owns late tokens much. A
patchwork moves whole blocks of work where that costs few words: pairs of own tokens stay at home in all heads, late
rows of a head go to one rank that has its keys. Tables are found by a search and kept (``tables``).
"""

from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.patches.plan import PatchesPlan, best_patches, plan_patches
from attenio.cluster.patches.tables import tables
from attenio.cluster.patches.words import patches_words

__all__ = ["PatchesPlan", "Patchwork", "best_patches", "patches_words", "plan_patches", "tables"]
