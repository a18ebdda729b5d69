"""The compression argument of Saha and Ye as an experiment: an epoch of a run is a short message for its scores.

Cut a run into epochs in which T words move. Whoever knows Q and K can write down the words that the epoch's scores are
made of: those that lie in fast memory when it begins (at most M) and those loaded in it (at most T). Whoever knows the
schedule but neither Q nor K replays the epoch from this message alone and finds every score that became explicit. So
the scores of an epoch cannot hold more than M + T words of information, in any field [Saha & Ye 2024, Thm 4.8].

>>> from attenio.fast_products.product import classical_product, random_factors
>>> from attenio.fast_products.program import program_of
>>> from attenio.fast_products.shape import Shape
>>> shape = Shape(rows=4, keys=4, depth=2)
>>> run = classical_product(*random_factors(shape), fast_words=7, record=True)
>>> epoch = epochs(program_of(run.trace, depth=2), moved_words=7)[1]
>>> Q, K = random_elements(shape, prime=5)
>>> message = compress(epoch, Q, K, prime=5)
>>> scores = Q @ K.T % 5
>>> len(message.words), all(value == scores[entry] for entry, value in recover(message, epoch).items())
(8, True)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attenio.errors import InvalidInput
from attenio.fast_products.program import Action, Compute, Load, Program, Store, Word
from attenio.fast_products.shape import Shape
from attenio.quantities import checked_count, show_words

# One element of the field, or an array of them: one for each pair Q, K that goes through at once.
Element = NDArray[np.int64]
Entry = tuple[int, int]

# Products of two elements must fit 63 bits, with room for adding up a row of them.
_LARGEST_PRIME = 2**24


@dataclass(frozen=True, kw_only=True, eq=False)
class Epoch:
    """Steps ``start`` to ``stop`` of a program, in which ``moved_words`` words move."""

    program: Program
    start: int
    stop: int
    moved_words: int

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Distinct scores that become explicit in the epoch, in the order they do."""
        steps = self.program.steps[self.start : self.stop]
        scores = ((step.word[1], step.word[2]) for step in steps if isinstance(step, Compute) and step.score)
        return tuple(dict.fromkeys(scores))

    @property
    def held(self) -> tuple[Word, ...]:
        """Words of fast memory at the beginning that the scores are made of."""
        return self._slice[0]

    @property
    def loaded(self) -> tuple[Word, ...]:
        """Words loaded in the epoch that the scores are made of and that were not stored in it before."""
        return self._slice[1]

    @property
    def steps(self) -> tuple[Action, ...]:
        """The steps that the scores depend on."""
        return self._slice[2]

    @cached_property
    def _slice(self) -> tuple[tuple[Word, ...], tuple[Word, ...], tuple[Action, ...]]:
        """Walk backwards from the scores and keep what they depend on."""
        fast: set[Word] = set()
        slow: set[Word] = set()
        actions: list[Action] = []
        for step in reversed(self.program.steps[self.start : self.stop]):
            match step:
                case Compute(word=word, terms=terms, score=score) if score or word in fast:
                    fast.discard(word)
                    fast.update(operand for _, operands in terms for operand in operands)
                case Load(word=word) if word in fast:
                    fast.discard(word)
                    slow.add(word)
                case Store(word=word) if word in slow:
                    slow.discard(word)
                    fast.add(word)
                case _:
                    continue
            actions.append(step)
        return tuple(sorted(fast)), tuple(sorted(slow)), tuple(reversed(actions))


@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """Elements of the field of ``prime`` elements: first the epoch's held words, then its loaded ones."""

    prime: int
    words: tuple[Element, ...]


def epochs(program: Program, *, moved_words: int) -> tuple[Epoch, ...]:
    """The program in stretches that move this many words each, the last one possibly fewer."""
    checked_count("words moved in an epoch", moved_words)
    cut, start, moved = [], 0, 0
    for position, step in enumerate(program.steps, start=1):
        moved += not isinstance(step, Compute)
        if moved == moved_words and not isinstance(step, Compute):
            cut.append(Epoch(program=program, start=start, stop=position, moved_words=moved))
            start, moved = position, 0
    if start < len(program.steps):
        cut.append(Epoch(program=program, start=start, stop=len(program.steps), moved_words=moved))
    return tuple(cut)


def compress(epoch: Epoch, Q: ArrayLike, K: ArrayLike, *, prime: int) -> Message:
    """What a sender who knows Q and K writes down: the state that the epoch begins with, and what it loads.

    Q and K may have leading axes: then every word of the message is an array, one element for each pair.
    """
    return next(compress_all((epoch,), Q, K, prime=prime))


def compress_all(epochs_of_run: Iterable[Epoch], Q: ArrayLike, K: ArrayLike, *, prime: int) -> Iterator[Message]:
    """The messages of epochs of one program, in the order of time, in a single pass over it."""
    slow = _inputs(Q, K, prime)
    fast: dict[Word, Element] = {}
    done = 0
    for epoch in epochs_of_run:
        _replay(epoch.program.steps[done : epoch.start], fast, slow, prime)
        done = epoch.start
        words = tuple([fast[word] for word in epoch.held] + [slow[word] for word in epoch.loaded])
        yield Message(prime=prime, words=words)


def recover(message: Message, epoch: Epoch) -> dict[Entry, Element]:
    """What a receiver who knows the schedule, but neither Q nor K, reads from the message."""
    held = len(epoch.held)
    if len(message.words) != held + len(epoch.loaded):
        raise InvalidInput(
            f"the message has {show_words(len(message.words))} and the epoch asks for {held + len(epoch.loaded):,};"
            " recover with the epoch that was compressed"
        )
    fast = dict(zip(epoch.held, message.words[:held], strict=True))
    slow = dict(zip(epoch.loaded, message.words[held:], strict=True))
    return _replay(epoch.steps, fast, slow, message.prime)


def random_elements(shape: Shape, *, prime: int, seed: int = 0) -> tuple[Element, Element]:
    """Uniform Q and K over the field of ``prime`` elements."""
    rng = np.random.default_rng(seed)
    Q, K = (rng.integers(0, prime, size=(height, shape.depth)) for height in (shape.rows, shape.keys))
    return Q, K


def _replay(
    steps: Iterable[Action], fast: dict[Word, Element], slow: dict[Word, Element], prime: int
) -> dict[Entry, Element]:
    """Do the steps in the field; the scores that become explicit are returned.

    A load of a word that nobody has (of V, of an output) gives nothing: no score depends on it.
    """
    scores: dict[Entry, Element] = {}
    for step in steps:
        match step:
            case Load(word=word):
                if word in slow:
                    fast[word] = slow[word]
            case Store(word=word):
                if word in fast:
                    slow[word] = fast[word]
            case Compute(word=word, terms=terms, score=score):
                total = np.zeros((), dtype=np.int64)
                for sign, operands in terms:
                    product = fast[operands[0]] if len(operands) == 1 else fast[operands[0]] * fast[operands[1]]
                    total = (total + sign * product) % prime
                fast[word] = total
                if score:
                    scores[word[1], word[2]] = total
    return scores


def _inputs(Q: ArrayLike, K: ArrayLike, prime: int) -> dict[Word, Element]:
    if prime < 2 or prime > _LARGEST_PRIME or any(prime % factor == 0 for factor in range(2, int(prime**0.5) + 1)):
        raise InvalidInput(f"{prime:,} is no prime of at most {_LARGEST_PRIME:,}; choose 2, 97 or 65521")
    slow: dict[Word, Element] = {}
    for name, given in (("Q", Q), ("K", K)):
        values = np.asarray(given, dtype=np.int64) % prime
        for row in range(values.shape[-2]):
            slow |= {(name, row, column): values[..., row, column] for column in range(values.shape[-1])}
    return slow
