import numpy as np

from attenio.elements import ElementType
from attenio.memory import SlowArray, Tile


def test_elements_take_one_word_and_intermediates_what_the_accumulator_takes():
    assert SlowArray.elements("K", np.zeros((2, 3), dtype=np.float32), ElementType.FP16).words_each == 1
    assert SlowArray.intermediate("S", (2, 3), 2).words_each == 2


def test_what_was_never_stored_is_nan():
    assert np.isnan(SlowArray.unwritten("O", (2, 3), ElementType.FP16).values).all()
    assert np.isnan(SlowArray.intermediate("S", (2, 3), 1).values).all()


def test_a_row_of_a_tile_keeps_its_number():
    tile = Tile("S", np.arange(6, dtype=np.float32).reshape(3, 2), slice(10, 13), slice(0, 2))
    assert tile.row(2).rows == slice(12, 13)
    assert tile.row(2).values.tolist() == [[4.0, 5.0]]
