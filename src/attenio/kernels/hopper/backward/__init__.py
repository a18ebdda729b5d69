"""The backward pass on Hopper.

``dataflow`` chooses between two dataflows. ``key_stationary``: blocks add their parts of dQ where they meet (of heads
up to 128 wide in bf16 ``cuda/key_stationary.cu``, else kernels ``key_stationary_d64`` and ``key_stationary_d128``).
``spilled_gradients``: dS is spilled, and multiplied with keys later (kernels ``spilled_key_gradients`` and
``spilled_query_gradients``). They share ``config`` (kernels and their tiles), ``block`` and ``producer`` (what blocks
share), ``masks`` (who sees what), ``preprocess`` (between launches), ``chunks`` and ``launch_groups`` (how a call is
cut into launches), ``group_parts`` (blocks that share a group), ``fixed_point`` (integer accumulators) and
``probabilities`` (P in 16 bits).
"""

from attenio.kernels.hopper.backward.config import BackwardConfig
from attenio.kernels.hopper.backward.dataflow import (
    choose,
    gradient_grids,
    gradients,
    is_proven,
    stand_in,
    supports,
    why_not,
)

__all__ = ["BackwardConfig", "choose", "gradient_grids", "gradients", "is_proven", "stand_in", "supports", "why_not"]
