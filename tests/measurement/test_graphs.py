"""The orders in which contenders are timed."""

from collections import Counter
from random import Random

import pytest

orders = pytest.importorskip("attenio.measurement.graphs")._orders


def test_few_contenders_take_turns_in_every_order_equally_often():
    found = Counter(map(tuple, orders(["a", "b", "c"], 12, Random(0))))
    assert len(found) == 6 and set(found.values()) == {2}


def test_many_contenders_take_turns_in_some_orders():
    names = [str(number) for number in range(20)]
    found = orders(names, 5, Random(0))
    assert len(found) == 5 == len(set(map(tuple, found))) and all(sorted(order) == sorted(names) for order in found)
    assert found == orders(names, 5, Random(0))
