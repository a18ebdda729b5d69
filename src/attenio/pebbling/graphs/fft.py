"""The butterfly graph of the fast Fourier transform [Cooley and Tukey 1965], decimated in frequency.

``x[i]`` are the inputs in their natural order, ``x[i;s]`` what stands in place i after stage s, and ``X[k]`` the output
of frequency k, which stands in the place whose number is k with its bits reversed.

>>> graph = fft(4)
>>> len(graph), [graph.names[u] for u in graph.parents[graph.number("X[2]")]]
(12, ['x[0;1]', 'x[1;1]'])
>>> fft(12)
Traceback (most recent call last):
attenio.errors.InvalidInput: points is 12; a butterfly graph needs a power of two, such as 8 or 16
"""

from attenio.errors import InvalidInput
from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Parents
from attenio.quantities import checked_count


def fft(points: int) -> ComputationGraph:
    """The graph of a transform of ``points`` values, a power of two: ``points`` vertices for each of log2 stages."""
    checked_count("points", points, least=2)
    stages = points.bit_length() - 1
    if points != 1 << stages:
        raise InvalidInput(
            f"points is {points:,}; a butterfly graph needs a power of two, such as {1 << stages:,} or {2 << stages:,}"
        )
    check_size("fft", points * (stages + 1))
    before = [f"x[{place}]" for place in range(points)]
    parents: Parents = dict.fromkeys(before, ())
    for stage in range(1, stages + 1):
        distance = points >> stage
        if stage < stages:
            after = [f"x[{place};{stage}]" for place in range(points)]
        else:
            after = [f"X[{reversed_bits(place, stages)}]" for place in range(points)]
        for place in range(points):
            # the upper one first, whichever of the two is computed
            upper = place & ~distance
            parents[after[place]] = (before[upper], before[upper + distance])
        before = after
    return ComputationGraph.from_parents(parents, name="fft", outputs=before)


def reversed_bits(number: int, width: int) -> int:
    """``number`` with its ``width`` bits in the opposite order.

    >>> reversed_bits(0b0011, 4) == 0b1100
    True
    """
    return int(f"{number:0{width}b}"[::-1], 2)
