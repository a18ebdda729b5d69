"""The backward pass on Hopper.

``gradients`` chooses between two forms: ``sums`` (shares of dQ are added up where they meet; its kernels are ``narrow``
and ``middle``) and ``slopes`` (slopes are spilled, and multiplied with keys later; ``wide`` and ``queries`` are its
kernels). The rest serves both: ``masks`` and ``service`` (who sees what, and how tiles travel), ``rows`` and ``forms``
(what comes before, between and around launches), ``groups`` and ``chunks`` (how a call is cut into launches),
``grains`` (integer sums), ``digits`` (weights in 16 bits).
"""

from attenio.kernels.hopper.backward.gradients import gradient_grids, is_proven, supports, two_pass

__all__ = ["gradient_grids", "is_proven", "supports", "two_pass"]
