"""Approximate attention on PyTorch tensors: dense and causal, token by token, with gradients; imports torch late."""

from attenio.approximation.running.attention import approximate_attention, certify_tensors
from attenio.approximation.running.decoding import DecodeState
from attenio.approximation.running.tensors import TiledSummation

__all__ = ["DecodeState", "TiledSummation", "approximate_attention", "certify_tensors"]
