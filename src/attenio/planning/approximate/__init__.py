"""Approximate dataflows: what they move and hold, their best tiles, and the error that they guarantee."""
