"""Best tiles: the exact-count minimum over all feasible integers, pruned by floors that hold for every tile.

``row_tiles`` and ``rectangles`` search one and two tile sizes; the other modules, named as the dataflows, say which
words and which room that means for each of them.
"""
