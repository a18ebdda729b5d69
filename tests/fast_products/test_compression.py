import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.fast_products.compression import Message, compress, compress_all, epochs, random_elements, recover
from attenio.fast_products.entropy import (
    all_elements,
    distinct_values,
    entry_floor,
    entry_mask,
    jacobian_rank,
    message_floor,
    published_floor,
)
from attenio.fast_products.shape import Shape

from .schedules import KINDS, LAWS, PRIMES, Schedule, field_product, recorded, schedules


@LAWS
@given(schedules(), st.integers(1, 40), st.sampled_from(PRIMES), st.integers(0, 99))
def test_the_receiver_finds_every_score_of_the_epoch_and_nothing_else(
    schedule: Schedule, moved_words: int, prime: int, seed: int
) -> None:
    Q, K = random_elements(schedule.shape, prime=prime, seed=seed)
    exact = field_product(Q, K, prime)
    known: set[tuple[int, int]] = set()
    found = epochs(schedule.program, moved_words=moved_words)
    for epoch, message in zip(found, compress_all(found, Q, K, prime=prime), strict=True):
        scores = recover(message, epoch)
        assert set(scores) == set(epoch.entries)
        assert all(value == exact[entry] for entry, value in scores.items())
        known.update(scores)
    assert len(known) == schedule.shape.scores


@LAWS
@given(schedules(), st.integers(1, 40), st.sampled_from(PRIMES))
def test_a_message_is_as_short_as_the_memory_and_as_long_as_the_entropy_asks(
    schedule: Schedule, moved_words: int, prime: int
) -> None:
    d = schedule.shape.depth
    for epoch in epochs(schedule.program, moved_words=moved_words):
        length = len(epoch.held) + len(epoch.loaded)
        assert len(epoch.held) <= schedule.fast_words
        assert len(epoch.loaded) <= epoch.moved_words <= moved_words
        entries = entry_mask(schedule.shape, epoch.entries)
        count = int(entries.sum())
        floor = message_floor(entries, d, prime=prime)
        assert published_floor(count, d) <= entry_floor(count, d, large_field=False) <= floor + 1e-9
        assert floor <= jacobian_rank(entries, d) <= length


@pytest.mark.parametrize("prime, shape", [(2, Shape(rows=3, keys=3, depth=2)), (3, Shape(rows=3, keys=2, depth=2))])
@pytest.mark.parametrize("kind", KINDS)
def test_over_tiny_fields_scores_take_no_more_values_than_messages_and_no_fewer_than_the_theorem_says(
    kind: str, prime: int, shape: Shape
) -> None:
    schedule = recorded(kind, shape, (2, 2))
    Q, K = all_elements(shape, prime=prime)
    exact = field_product(Q, K, prime)
    for moved_words in (3, 7, 12):
        for epoch in epochs(schedule.program, moved_words=moved_words):
            message = compress(epoch, Q, K, prime=prime)
            scores = recover(message, epoch)
            assert all(np.array_equal(value, exact[:, i, j]) for (i, j), value in scores.items())
            values = distinct_values(scores.values(), prime=prime)
            messages = distinct_values(message.words, prime=prime)
            floor = message_floor(entry_mask(shape, epoch.entries), shape.depth, prime=prime)
            assert prime**floor <= values <= messages <= prime ** len(message.words)


@pytest.mark.parametrize("kind", ["result-stationary", "row-stationary", "rank-one-tiling", "attenio"])
def test_every_word_of_a_message_changes_what_the_receiver_reads(kind: str) -> None:
    schedule = recorded(kind, Shape(rows=6, keys=5, depth=3), (3, 2))
    factors = random_elements(schedule.shape, prime=65521, seed=4)
    for epoch in epochs(schedule.program, moved_words=11):
        message = compress(epoch, *factors, prime=65521)
        told = recover(message, epoch)
        for place, word in enumerate(message.words):
            changed = (*message.words[:place], (word + 1) % 65521, *message.words[place + 1 :])
            assert recover(Message(prime=65521, words=changed), epoch) != told


def test_one_pass_over_the_program_writes_the_same_messages_as_one_pass_for_each() -> None:
    schedule = recorded("strassen", Shape(rows=5, keys=4, depth=3), (2, 2))
    factors = random_elements(schedule.shape, prime=7)
    found = epochs(schedule.program, moved_words=10)
    for epoch, message in zip(found, compress_all(found, *factors, prime=7), strict=True):
        assert message.words == compress(epoch, *factors, prime=7).words


def test_a_receiver_with_another_epoch_is_told_so() -> None:
    schedule = recorded("result-stationary", Shape(rows=4, keys=4, depth=2), (2, 2))
    first, second = epochs(schedule.program, moved_words=9)[:2]
    message = compress(first, *random_elements(schedule.shape, prime=3), prime=3)
    assert len(message.words) != len(second.held) + len(second.loaded)
    with pytest.raises(InvalidInput, match="the epoch that was compressed"):
        recover(message, second)


@pytest.mark.parametrize("number", [1, 4, 91, 2**31 - 1])
def test_only_prime_fields_small_enough_for_exact_products_are_accepted(number: int) -> None:
    schedule = recorded("result-stationary", Shape(rows=2, keys=2, depth=1), (1, 1))
    (epoch, *_) = epochs(schedule.program, moved_words=3)
    with pytest.raises(InvalidInput, match="no prime"):
        compress(epoch, np.ones((2, 1)), np.ones((2, 1)), prime=number)
