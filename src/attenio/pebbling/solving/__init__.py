"""Solvers that find a cheapest schedule and prove it, or say how far the proof came."""
