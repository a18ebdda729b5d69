"""Random calls of ``attention()`` in random order, each compared with the float64 definition."""

from attenio.measurement.fuzz.case import Case
from attenio.measurement.fuzz.running import check, wrong_in

__all__ = ["Case", "check", "wrong_in"]
