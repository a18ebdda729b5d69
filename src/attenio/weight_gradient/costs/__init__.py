"""Closed forms of the weight gradient's dataflows: exact words moved and held, named as the dataflows.

One head with n rows and m keys, all of them needed, widths d, w words an intermediate. U(a) keys are read by tiles of
a rows, T(a,b) rows meet runs of b keys, Z scores are required; a prime clips a tile to the problem.
"""

from attenio.weight_gradient.costs.cost import weight_cost

__all__ = ["weight_cost"]
