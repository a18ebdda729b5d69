"""The search for best tiles: one engine a kind of phase, for integers; ``sweeping`` has them for arrays."""
