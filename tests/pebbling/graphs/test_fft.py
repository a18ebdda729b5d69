"""The butterfly graph computes the Fourier transform."""

import cmath

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.fft import fft, reversed_bits

from .evaluation import ancestors, evaluate


@pytest.mark.parametrize("points", [2, 4, 8, 32])
def test_its_values_are_the_transform(points: int) -> None:
    stages = points.bit_length() - 1
    signal = np.random.default_rng(points).standard_normal(points)

    def butterfly(name: str, needs: dict[str, complex]) -> complex:
        place, _, stage = name.partition("[")[2][:-1].partition(";")
        number = int(stage) if stage else stages
        index = int(place) if stage else reversed_bits(int(place), stages)
        distance = points >> number
        upper, lower = needs.values()
        if not index & distance:
            return upper + lower
        return (upper - lower) * cmath.exp(-2j * cmath.pi * (index % distance) / (2 * distance))

    graph = fft(points)
    values = evaluate(graph, {f"x[{i}]": complex(v) for i, v in enumerate(signal)}, butterfly)
    transformed = [values[f"X[{k}]"] for k in range(points)]
    np.testing.assert_allclose(transformed, np.fft.fft(signal), atol=1e-10)


@pytest.mark.parametrize("points", [2, 4, 8, 64])
def test_its_size_is_points_times_stages_and_every_output_needs_every_input(points: int) -> None:
    graph = fft(points)
    stages = points.bit_length() - 1
    assert len(graph) == points * (stages + 1)
    assert graph.edges == 2 * points * stages
    inputs = {f"x[{i}]" for i in range(points)}
    assert all(inputs <= ancestors(graph, f"X[{k}]") for k in range(min(points, 8)))
    assert graph.compulsory_words == 2 * points


@pytest.mark.parametrize(
    ("points", "complaint"),
    [(12, "such as 8 or 16"), (1, "at least 2"), (0, "at least 2"), (2**22, "vertices"), (2.0, "points is 2.0")],
)
def test_bad_sizes_are_refused(points: int, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        fft(points)
