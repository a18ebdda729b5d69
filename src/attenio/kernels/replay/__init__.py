"""What saves host time: launches that go past Triton's Python, and recorded launches that are replayed.

``launcher`` and ``tape`` read Triton's internals. ``set_replay(False)`` turns both off: Triton then launches every
kernel itself, every call plans its launches again, and results are the same.
"""

from attenio.kernels.replay.switch import replay_enabled, set_replay

__all__ = ["replay_enabled", "set_replay"]
