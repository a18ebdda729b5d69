"""Grids of devices and strips on counted memories and a counted network: the second witness of words and memory."""

from attenio.cluster.counted.run import ClusterRun, execute_grid
from attenio.cluster.counted.strips import execute_strips

__all__ = ["ClusterRun", "execute_grid", "execute_strips"]
