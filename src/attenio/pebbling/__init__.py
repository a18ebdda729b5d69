"""The red-blue pebble game: graphs, rules, a referee, exact optima, lower bounds, schedules for large graphs.

>>> from attenio.pebbling import Game, check
"""

from attenio.pebbling.checking import Board, Complaint, Verdict, check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.pebbling.solution import Ending, Solution

__all__ = [
    "Board",
    "Complaint",
    "ComputationGraph",
    "Ending",
    "Game",
    "Move",
    "MoveKind",
    "Schedule",
    "Solution",
    "Variant",
    "Verdict",
    "check",
]
