import pytest
from hypothesis import given

from attenio.errors import InvalidInput
from attenio.fast_products.shape import Shape

from .schedules import LAWS, shapes


@LAWS
@given(shapes(40))
def test_seven_products_of_halves_are_never_more_work_than_seven_eighths_of_the_next_even_shape(shape: Shape) -> None:
    if shape.halves:
        work = sum(part.scores * part.depth for part in shape.sub_products())
        rows, keys, depth = (side + side % 2 for side in (shape.rows, shape.keys, shape.depth))
        assert 8 * work <= 7 * rows * keys * depth


def test_an_even_shape_is_cut_into_seven_equal_products() -> None:
    parts = Shape(rows=8, keys=6, depth=4).sub_products()
    assert parts == (Shape(rows=4, keys=3, depth=2),) * 7


def test_an_empty_side_is_refused() -> None:
    with pytest.raises(InvalidInput, match="depth is 0"):
        Shape(rows=1, keys=1, depth=0)
