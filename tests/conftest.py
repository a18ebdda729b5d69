"""Laws draw the same problems on every run: a red run can be repeated, and a green one is not luck."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
