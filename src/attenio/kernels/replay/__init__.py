"""What saves host time: launches that go past Triton's Python, and recorded launches that are replayed.

``launcher`` and ``tape`` read Triton's insides. ``set_replay(False)`` turns both off: every kernel is then launched by
Triton itself, every call plans its launches anew, and results are the same.
"""

from attenio.kernels.replay.switch import replay_enabled, set_replay

__all__ = ["replay_enabled", "set_replay"]
