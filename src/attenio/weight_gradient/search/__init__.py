"""Best tiles of the weight gradient's dataflows: the exact-count minimum over all integers that fit, phase by phase.

Phases follow each other and each has all of the fast memory, so their tiles are searched one phase at a time.
"""
