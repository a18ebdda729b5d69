"""Random calls of ``attention()`` in random order, each compared with the float64 definition."""

from fuzz.case import Case
from fuzz.running import check, wrong_in

__all__ = ["Case", "check", "wrong_in"]
