"""The counted memory: capacity that cannot be exceeded, words that cannot be moved unseen, and its trace."""

from attenio.memory.fast_memory import Buffer, FastMemory
from attenio.memory.matrix import Matrix, SlowArray, Tile
from attenio.memory.trace import Event, EventKind, Step, Trace

__all__ = ["Buffer", "Event", "EventKind", "FastMemory", "Matrix", "SlowArray", "Step", "Tile", "Trace"]
