"""One position for all that the symmetries of the graph carry into each other."""

from typing import Any

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import NONE, ONE, copy_words, lowest
from attenio.pebbling.solving.search.encoding import POSITION_WORDS


@compiled
def _image(images: Any, words: Any, base: Any, count: Any, out: Any) -> Any:
    """Carry a set of ``count`` words by a symmetry."""
    for word in range(count):
        out[base + word] = 0
    for word in range(count):
        rest = words[base + word]
        while rest:
            image = images[64 * word + lowest(rest)]
            rest &= rest - ONE
            out[base + (image >> 6)] |= ONE << np.uint64(image & 63)


@compiled
def _compare(a: Any, b: Any, first: Any, last: Any) -> Any:
    for word in range(first, last):
        if a[word] != b[word]:
            return -1 if a[word] < b[word] else 1
    return 0


@called_from_python
def canonical(store: Any, s: Any, best: Any, trial: Any) -> Any:
    """The least of a position's images under the symmetries, into ``best``; what was done is compared first."""
    copy_words(s, best, POSITION_WORDS)
    partial = len(store.edge_symmetries[0]) > 0
    for number in range(1, len(store.symmetries)):
        images = store.symmetries[number]
        if partial:
            _image(store.edge_symmetries[number], s, 4, 4, trial)
        else:
            _image(images, s, 4, 2, trial)
            trial[6] = trial[7] = NONE
        order = _compare(trial, best, 4, 8)
        if order > 0:
            continue
        _image(images, s, 2, 2, trial)
        if order == 0:
            order = _compare(trial, best, 2, 4)
        if order > 0:
            continue
        _image(images, s, 0, 2, trial)
        if order < 0 or _compare(trial, best, 0, 2) < 0:
            copy_words(trial, best, POSITION_WORDS)


@called_from_python
def carry(store: Any, s: Any, number: Any, image: Any) -> Any:
    """The image of a position under one symmetry."""
    for word in range(POSITION_WORDS):
        image[word] = NONE
    _image(store.symmetries[number], s, 0, 2, image)
    _image(store.symmetries[number], s, 2, 2, image)
    if len(store.edge_symmetries[0]) > 0:
        _image(store.edge_symmetries[number], s, 4, 4, image)
    else:
        _image(store.symmetries[number], s, 4, 2, image)
