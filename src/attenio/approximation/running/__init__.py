"""Approximate attention on PyTorch tensors: dense and causal, token by token, with gradients; imports torch late."""

from attenio.approximation.running.attention import approximate_attention, certify_tensors
from attenio.approximation.running.decoding import DecodeState

__all__ = ["DecodeState", "approximate_attention", "certify_tensors"]
