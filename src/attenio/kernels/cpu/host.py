"""Where tiles live on the machine that this process runs on."""

from attenio.catalogue.caches import host_machine as host_machine
from attenio.machine import Boundary, Machine


def private_boundary(machine: Machine) -> Boundary:
    """The boundary below the largest cache that no two cores share, or below the fastest one if all are shared.

    A kernel's tile lives there: every thread works on its own, and what it keeps must not be evicted by its neighbours.
    Faster caches are the business of the matrix product, which blocks for them itself.
    """
    most = max(level.units for level in machine.levels)
    return [boundary for boundary in machine.boundaries if boundary.fast.units == most][-1]
