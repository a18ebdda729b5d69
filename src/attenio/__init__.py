"""attenio: how little data attention must move on a machine, and how to get there."""
