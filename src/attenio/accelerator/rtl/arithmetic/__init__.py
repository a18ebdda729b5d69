"""Floating-point units, one a file: what the MACs and the EXP modules are made of."""
