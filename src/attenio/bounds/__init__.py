"""Proven lower bounds, one theorem a file."""
