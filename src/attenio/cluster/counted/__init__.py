"""Grids, strips and patches on counted memories and a counted network: the second witness of words and memory."""

from attenio.cluster.counted.patches import execute_patches
from attenio.cluster.counted.run import ClusterRun, execute_grid
from attenio.cluster.counted.strips import execute_strips

__all__ = ["ClusterRun", "execute_grid", "execute_patches", "execute_strips"]
