"""Boxes of all epochs with held scores: pairs, fresh pairs, the words of a column, and outputs that are there first.

No epoch in a box does more than its corner says, and boxes are cut in two as long as that is more than granted.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.bounds.held_scores import FIRST, Longer, work_of_epoch

Floats = NDArray[np.float64]


def of_values(y: Floats, first: Floats) -> Floats:
    """The root of the most outputs times values in y words, if so many outputs cost one word and the others two."""
    between = np.sqrt(np.maximum(y - first, 0) * first)
    return np.where(y >= 3 * first, (y + first) / np.sqrt(8), np.where(y >= 2 * first, between, y / 2))


def most_in(boxes: Floats, memory: float, budget: float, more: float, *, affine: bool) -> Floats:
    """No epoch with its pairs, its fresh pairs, the words of a column and its first outputs in a box does more.

    Words are in d², those of a column in d. Beyond what makes a product of scores for every pair they go to values.
    """
    (z, most_z), (f, most_f), (w, most_w), (first, most_first) = boxes
    w = np.maximum(w, 2 * f)
    y = np.maximum(budget - z - w, 0)
    sides, most_sides, v = np.sqrt(z), np.sqrt(most_z), most_z + most_f**2
    chord = np.minimum(most_w, 2 * most_sides) * (most_sides + f) / 2 - f * most_sides
    few = np.minimum(chord, most_z) + np.sqrt(v) * np.maximum(most_w - 2 * sides, 0) / 2
    many = most_z + np.sqrt(v) * np.maximum(most_w - 2 * f, 0) / 2
    scores = np.where(most_f <= sides, few, np.where(f >= most_sides, many, np.maximum(few, many)))
    held = np.minimum(most_z, memory - first) + most_f**2
    if affine:
        share = np.minimum(held / (2 * np.sqrt(np.maximum(z + f**2, 1e-300))), np.sqrt(v) / 2)
        outputs = np.sqrt(v) * y / 2 + more * np.minimum(most_first, y / 2) * share
    else:
        outputs = np.sqrt(v + more * held) * of_values(y, most_first)
    proved = (z + 2 * sides >= budget) & (most_f <= sides)
    none = (most_w < 2 * f) | (z + w > budget)
    return np.where(proved | none, 0.0, scores + outputs)


def with_first_stays(y: Floats, first: Floats, pairs: Floats, price: float) -> Floats:
    """The most of ``pairs`` times that if any others may cost one word as well, for a price."""
    share = price / np.maximum(pairs, 1e-12)
    sine = share / np.sqrt(1 + share**2)
    best = y / 2 * (1 - sine)
    more = pairs * y / 2 * np.sqrt(1 - sine**2) - price * (best - first)
    return np.where((share < 8**-0.5) & (first < best), more, pairs * of_values(y, first))


def of_scores(boxes: Floats, beyond: float, each: Floats) -> Floats:
    """The most that columns of scores do, if what is beyond a product for every pair does half of ``each`` a word."""
    (z, most_z), (f, most_f), (w, most_w) = boxes[:3]
    w, most_sides = np.maximum(w, 2 * f), np.sqrt(most_z)
    pairs, most_pairs = np.maximum(z - beyond, 0), np.maximum(most_z - beyond, 0)
    inner, most_inner = np.sqrt(pairs), np.sqrt(most_pairs)
    within = np.minimum(most_w, 2 * most_inner)
    lacking = f * (most_sides - np.sqrt(f**2 + beyond)) * (most_inner - within / 2) / np.maximum(most_inner - f, 1e-12)
    few = most_sides * within / 2 - np.where(f < most_inner, lacking, 0)
    few = few + each * np.maximum(most_w - 2 * inner, 0) / 2
    beyond_pairs = most_pairs + np.sqrt(beyond * np.maximum(most_f**2 - most_pairs, 0))
    many, others = most_sides * most_f, each * np.maximum(most_w - 2 * f, 0) / 2
    many = np.where((z < beyond) | (most_f <= most_sides), many, beyond_pairs) + others
    return np.where(most_f <= inner, few, np.where((z < beyond) | (f >= most_inner), many, np.maximum(few, many)))


def settled(boxes: Floats, beyond: float, budget: float) -> NDArray[np.bool_]:
    """Where there is no epoch, or the proof says that it does no more than without fresh pairs."""
    (z, most_z), (f, most_f), (w, most_w) = boxes[:3]
    w, inner = np.maximum(w, 2 * f), np.sqrt(np.maximum(z - beyond, 0))
    slope = (inner + f) / (np.sqrt(most_z) + np.sqrt(most_f**2 + beyond))
    proved = (most_f <= inner) & (2 * inner >= most_w)
    y = np.maximum(budget - z - w, 0)
    proved &= most_f * y <= slope * (2 * inner - most_w) * np.maximum(np.sqrt(z), 1e-12)
    return proved | (most_w < 2 * f) | (z + w > budget)


def most_in_longer(boxes: Floats, epoch: Longer, more: float) -> Floats:
    """The same for longer epochs, where z counts what edges are worth as well, and that is as much as it may be.

    A z that is less than that is what edges are worth alone.
    """
    (z, most_z), (f, most_f), (w, _), (first, most_first) = boxes
    memory, budget = epoch.most, epoch.most * epoch.budget
    beyond, v = epoch.beyond * memory, most_z + most_f**2
    y = np.maximum(budget - z - np.maximum(w, 2 * f), 0)
    held = np.minimum(most_z, memory - first) + most_f**2
    outputs = with_first_stays(y, most_first, np.sqrt(v + more * held), FIRST * more * np.sqrt(memory))
    return np.where(settled(boxes, beyond, budget), 0.0, of_scores(boxes, beyond, np.sqrt(v)) + outputs)


def most_in_paid(boxes: Floats, epoch: Longer, part: tuple[float, float], more: float) -> Floats:
    """The same where scores that are made again are paid for: boxes have what was paid for fresh pairs, too.

    It holds for all fast memories between two, in d²; words are in d² of the larger one. A word of a column is none of
    the values: with all that columns may have, what as many words of values do at least is taken off.
    """
    (z, most_z), (f, most_f), (w, most_w), (first, most_first), (paid, most_paid) = boxes
    memory, budget, heavy = part[1], part[1] * epoch.budget, np.sqrt(1 + more)
    beyond, least, most_w = epoch.beyond * memory, np.maximum(w, 2 * f), np.minimum(most_w, budget - z)
    y = np.maximum(budget - z - least, 0)
    columns = epoch.wide * np.sqrt(part[1] / part[0]) * np.minimum(np.minimum(most_paid, most_f**2), most_z)
    others = np.maximum(most_z - paid, 0)
    others = others + more * np.minimum(others, memory - first)
    # about the share of fresh pairs that is best, but every share from 0 to 1 is right
    at_once = np.clip(columns / np.maximum(most_f * of_values(y, most_first), 1e-12), 0, 0.999)
    share = at_once / np.sqrt(1 - at_once**2) * np.sqrt(others) / np.maximum(heavy * most_f, 1e-12)
    outputs = np.full_like(z, np.inf)
    for fresh in (np.minimum(share, 1), np.ones_like(z)):
        pairs, price = np.sqrt(others + (heavy * fresh * most_f) ** 2), FIRST * more * np.sqrt(memory)
        some = with_first_stays(y, most_first, pairs, price) + (1 - fresh) * heavy * columns
        some -= np.minimum(np.sqrt(most_z) / 2, pairs / np.sqrt(8)) * np.maximum(most_w - least, 0)
        outputs = np.minimum(outputs, some)
    none = settled(boxes, beyond, budget) | (paid > most_f**2) | (paid > most_z)
    within = np.stack((boxes[0], boxes[1], np.stack((w, most_w))))
    return np.where(none, 0.0, of_scores(within, beyond, np.sqrt(most_z)) + outputs)


def paid_does_no_more(epoch: Longer, part: tuple[float, float], more: float) -> bool:
    """Whether boxes all do no more in the end than is said of an epoch that pays for scores that are made again."""
    granted = epoch.slack * work_of_epoch(more, epoch.budget) * part[1] ** 1.5
    budget, looked_at = part[1] * epoch.budget, 0
    waiting = [(np.array([[0, budget], [0, budget / 2], [0, budget], [0, part[1]], [0, budget]])[:, :, None], 0)]
    while waiting:
        boxes, axis = waiting.pop()
        boxes = in_two(boxes, axis)
        looked_at += boxes.shape[2]
        if looked_at > 2**26:
            return False
        boxes = boxes[:, :, most_in_paid(boxes, epoch, part, more) > granted]
        halves = np.array_split(boxes, 2, axis=2) if boxes.shape[2] > 2**17 else [boxes]
        waiting += [(half, (axis + 1) % 5) for half in halves if half.shape[2]]
    return True


def longer_does_no_more(epoch: Longer, more: float) -> bool:
    """Whether boxes all do no more in the end than is said of a longer epoch."""
    granted = epoch.slack * work_of_epoch(more, epoch.budget) * epoch.most**1.5
    budget = epoch.most * epoch.budget
    boxes = np.array([[0, budget], [0, budget / 2], [0, budget], [0, epoch.most]])[:, :, None]
    while boxes.shape[2]:
        if boxes.shape[2] > 2**20:
            return False
        boxes = in_halves(boxes[:, :, most_in_longer(boxes, epoch, more) > granted])
    return True


def in_two(boxes: Floats, axis: int) -> Floats:
    """Boxes that are cut in two in one direction."""
    middle, low, high = boxes[axis].mean(axis=0), boxes.copy(), boxes.copy()
    low[axis, 1], high[axis, 0] = middle, middle
    return np.concatenate((low, high), axis=2)


def in_halves(boxes: Floats) -> Floats:
    """Boxes that are cut in two in every direction."""
    for axis in range(4):
        boxes = in_two(boxes, axis)
    return boxes


def does_no_more(case: tuple[float, float], more: float, granted: float, *, affine: bool) -> bool:
    """Whether boxes, cut in two in every direction as long as they may do more, all do no more in the end."""
    memory, budget = case[0], case[1] * case[0]
    boxes = np.array([[0, budget], [0, budget / 2], [0, budget], [0, memory]])[:, :, None]
    while boxes.shape[2]:
        if boxes.shape[2] > 2**21:
            return False
        boxes = in_halves(boxes[:, :, most_in(boxes, memory, budget, more, affine=affine) > granted * memory**1.5])
    return True
