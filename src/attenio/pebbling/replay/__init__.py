"""From runs to games: the recorded events of a dataflow as a legal pebbling of attention's graph."""

from attenio.pebbling.replay.replay import Replay, replay

__all__ = ["Replay", "replay"]
