"""The problems of a workload: counts of their patterns, floors under these, and the words that forms move over them."""

from attenio.planning.problems.problems import Problems

__all__ = ["Problems"]
