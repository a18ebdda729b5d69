"""Stacked groups: AttenIO's order over the rows of all heads that share keys, and of all requests that share a prefix.

    for each tile of head_tile heads of the group, each tile of query_tile positions; i their rows, head after head:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each run j of key_tile keys that the positions need:
            load K_j;  S = scale Q_i K_j^T
            P, max, sum, rescale = online softmax of S
            load V_j over K_j (not if it is part of K_j);  O_i = rescale O_i + P V_j
        store O_i / sum

A key read once serves head_tile x query_tile rows. With a shared prefix the positions of all requests follow each
other, so a tile that spans requests reads the prefix once for all of them.
"""

from attenio.dataflows.attenio import attend
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def stacked_groups(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    attend(problem, tiles, fast, heads_at_once=min(tiles["head_tile"], problem.group))
