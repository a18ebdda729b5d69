"""Causal work in strips of rows: every place gets rows and keys that mostly see each other.

A grid of zigzag tokens makes squares of scores and uses half of each. Here the triangle of causal scores is cut into
strips of rows, the last rows first; the places of a strip have all of its rows and share the keys before them. What
few places are left share the triangle of the first rows. Each part is as large as every other.
"""

from attenio.cluster.layout import Product
from attenio.cluster.strips.homes import Owners
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.plan import StripsPlan, best_strips, plan_strips
from attenio.cluster.strips.words import strips_words

__all__ = ["Owners", "Product", "Strips", "StripsPlan", "best_strips", "plan_strips", "strips_words"]
