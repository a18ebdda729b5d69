"""attenio: how little data attention must move on a machine, and how to get there."""

__version__ = "0.1.0"
