from itertools import combinations_with_replacement

import pytest
import torch

from attenio.approximation.running import feature_rows, monomials
from attenio.approximation.running.feature_rows import FeatureRows
from attenio.approximation.running.monomials import Monomials


def made(rows: torch.Tensor, degree: int) -> tuple[FeatureRows, torch.Tensor]:
    heads, count, d = rows.shape
    tile = FeatureRows(Monomials(d=d, degree=degree), heads, count, rows)
    tile.load(rows, 1.0)
    features = torch.empty(heads, tile.monomials.count, count, dtype=rows.dtype)
    for which, block in tile.blocks():
        features[:, which] = block
    return tile, features


@pytest.mark.parametrize("most", [5120, 12])
@pytest.mark.parametrize(("d", "degree"), [(3, 1), (4, 2), (5, 3), (3, 4), (2, 7)])
def test_features_are_the_monomials_in_lexicographic_order(
    d: int, degree: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monomials, "MOST_ROWS", most)
    monkeypatch.setattr(feature_rows, "MOST_ROWS", most)
    rows = torch.rand(2, 6, d, dtype=torch.float64) - 0.5
    _, features = made(rows, degree)
    longer = torch.nn.functional.pad(rows, (0, 1), value=1.0)
    for place, chosen in enumerate(combinations_with_replacement(range(d + 1), degree)):
        torch.testing.assert_close(features[:, place], longer[:, :, list(chosen)].prod(-1))


@pytest.mark.parametrize("most", [5120, 12])
@pytest.mark.parametrize(("d", "degree"), [(3, 1), (4, 2), (4, 3), (3, 4), (2, 6)])
def test_gradients_pulled_back_are_those_of_the_features(
    d: int, degree: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monomials, "MOST_ROWS", most)
    monkeypatch.setattr(feature_rows, "MOST_ROWS", most)
    rows = torch.rand(2, 5, d, dtype=torch.float64) - 0.5
    tile, features = made(rows, degree)
    upstream = torch.rand(features.shape, dtype=torch.float64)
    for which in tile.pieces():
        tile.pull(which, upstream[:, which])
    wanted = rows.clone().requires_grad_()
    longer = torch.nn.functional.pad(wanted, (0, 1), value=1.0)
    chosen = torch.tensor(list(combinations_with_replacement(range(d + 1), degree)))
    (longer[:, :, chosen].prod(-1).transpose(1, 2) * upstream).sum().backward()
    torch.testing.assert_close(tile.pulled(), wanted.grad)
    torch.testing.assert_close(tile.pulled(), torch.zeros_like(rows))  # and nothing is left for the next tile
