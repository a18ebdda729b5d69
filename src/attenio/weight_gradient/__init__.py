"""The gradient of attention with respect to its weights: O = softmax(A1 X A2^T) A3 Y, given dO asks for dX and dY.

>>> from attenio.weight_gradient import WeightGradient, plan_weight_gradient
>>> plan = plan_weight_gradient(WeightGradient(n=8192, d=64), 65_536)
>>> plan.dataflow.value, plan.moved_words
('fused', 46088192)
"""

from attenio.weight_gradient.best import plan_weight_gradient, weight_candidates
from attenio.weight_gradient.bounds import bounds_for_weight_gradient
from attenio.weight_gradient.execute import WeightRun, execute_weight_gradient
from attenio.weight_gradient.inputs import WeightInputs, random_weight_inputs
from attenio.weight_gradient.plan import WeightDataflow, WeightPlan
from attenio.weight_gradient.reference import WeightGradients, weight_gradients, weighted_attention
from attenio.weight_gradient.words import weight_cost
from attenio.weight_gradient.workload import WeightGradient

__all__ = [
    "WeightDataflow",
    "WeightGradient",
    "WeightGradients",
    "WeightInputs",
    "WeightPlan",
    "WeightRun",
    "bounds_for_weight_gradient",
    "execute_weight_gradient",
    "plan_weight_gradient",
    "random_weight_inputs",
    "weight_candidates",
    "weight_cost",
    "weight_gradients",
    "weighted_attention",
]
