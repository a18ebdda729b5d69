"""Grids, strips and patches on counted memories and a counted network: the second witness of words and memory."""

from attenio.cluster.counted.layout import execute_layout
from attenio.cluster.counted.run import ClusterRun, execute_grid

__all__ = ["ClusterRun", "execute_grid", "execute_layout"]
