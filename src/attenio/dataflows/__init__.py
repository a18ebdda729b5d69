"""Dataflows on the counted memory, one loop nest a file."""
