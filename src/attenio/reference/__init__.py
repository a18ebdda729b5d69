"""The definition of attention and of its gradient, in float64."""

from attenio.reference.backward import Gradients, attention_gradients
from attenio.reference.forward import Block, Part, attention, attention_blocks, parts

__all__ = ["Block", "Gradients", "Part", "attention", "attention_blocks", "attention_gradients", "parts"]
