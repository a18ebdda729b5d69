from attenio.masks.patterns.lazy import lazy


class Counting:
    asked = 0

    @lazy
    def answer(self) -> int:
        """What is computed."""
        self.asked += 1
        return 42


def test_a_lazy_attribute_is_computed_once_for_each_instance() -> None:
    first, second = Counting(), Counting()
    assert (first.asked, second.asked) == (0, 0)
    assert first.answer == first.answer == 42
    assert (first.asked, second.asked) == (1, 0)


def test_a_lazy_attribute_of_the_class_is_the_attribute_itself() -> None:
    assert isinstance(Counting.answer, lazy)
    assert Counting.answer.__doc__ == "What is computed."
