"""Exact optima by a constraint program."""

from attenio.pebbling.solving.cp_sat.solver import cp_sat

__all__ = ["cp_sat"]
