"""The closed form of the approximate gradient."""
