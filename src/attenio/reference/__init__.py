"""The definition of attention and of its gradient, in float64."""

from attenio.reference.backward import Gradients, attention_gradients, gradients_and_sinks
from attenio.reference.forward import Block, Segment, attention, attention_blocks, segments

__all__ = [
    "Block",
    "Gradients",
    "Segment",
    "attention",
    "attention_blocks",
    "attention_gradients",
    "gradients_and_sinks",
    "segments",
]
