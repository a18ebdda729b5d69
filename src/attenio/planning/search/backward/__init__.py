"""The best form of the approximate gradient."""
