"""The words that standard attention, FLAT and FlashAttention-2 load, and those that they store, in their order.

Standard attention loads what it stored: scores and probabilities. The memory gives it those of the functional model;
as every word that is stored is compared with the same ones, that is what a memory would give.
"""

from collections.abc import Iterator
from math import ceil

import numpy as np

from attenio.accelerator.functional.arithmetic import Numbers, Precision, Values
from attenio.accelerator.functional.heads import Head, heads_of
from attenio.accelerator.functional.run import run_functional
from attenio.accelerator.functional.tile import RowSoftmax
from attenio.accelerator.rtl.along_rows.layout import words_of
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.geometry import Words
from attenio.accelerator.rtl.nest import Place
from attenio.accelerator.rtl.streams import Streams, beats_of, bits_of
from attenio.accelerator.step import Engine, Operation, Step
from attenio.dataflows.inputs import Inputs, random_inputs
from attenio.planning import Dataflow

_STORES = (Operation.STORE_OUTPUTS, Operation.STORE_TILE)


def row_streams(design: Design, seed: int) -> Streams:
    """Everything that is loaded, in beats of as many words as arrive at once; queries come with all others."""
    pe = design.hardware.pe
    beats = [beats_of(words, design.arriving) for step, words in _transfers(design, seed) if not _is_store(step)]
    none = np.zeros((0, pe.lines, pe.macs_per_line), dtype=np.uint16)
    return Streams(queries=none, kv=np.concatenate(beats))


def stored_words(design: Design, seed: int) -> Words:
    """Everything that is stored, a word a row."""
    return np.concatenate([words for step, words in _transfers(design, seed) if _is_store(step)])[:, None]


def stored_tiles(design: Design, beats: Words) -> list[Words]:
    """What was stored, step by step, from the words of all MACs, beat by beat."""
    tiles, at, macs = [], 0, design.hardware.pe.macs
    words = beats.reshape(-1, macs)
    for step in design.program:
        if _is_store(step):
            count = words_of(Place(step, 0), design.widths)[1]
            tiles.append(words[at : at + ceil(count / macs)].ravel()[:count, None])
            at += ceil(count / macs)
    return tiles


def _is_store(step: Step) -> bool:
    return step.operation in _STORES


def _transfers(design: Design, seed: int) -> Iterator[tuple[Step, Words]]:
    """Every step of the memory, and its words."""
    given = random_inputs(design.plan.workload, seed)
    steps = (step for step in design.program if step.engine is Engine.HBM)
    outputs = run_functional(design.plan, design.machine, inputs=seed).output
    for head in heads_of(design.plan):
        if design.plan.dataflow is Dataflow.STANDARD:
            yield from _three_operators(design, head, given, steps)
        else:
            yield from _tiles(design, head, (given, bits_of(head.queries(outputs)[0])), steps)


def _operands(design: Design, head: Head, given: Inputs) -> tuple[Numbers, Values, Values, Values]:
    numbers = Numbers(pe=design.hardware.pe, precision=Precision.HALF)
    q = numbers.keep(head.queries(given.q)[0] * design.plan.workload.softmax_scale)
    return numbers, q, numbers.keep(head.keys(given.k)), numbers.keep(head.keys(given.v))


def _tiles(
    design: Design, head: Head, words: tuple[Inputs, Words], steps: Iterator[Step]
) -> Iterator[tuple[Step, Words]]:
    """Tiles of queries, each with the keys and values that it needs."""
    _, q, k, v = _operands(design, head, words[0])
    row = key = value = 0
    for step in steps:
        needed = head.pattern.needed_keys(row, row + step.rows)
        match step.operation:
            case Operation.LOAD_QUERIES:
                yield step, bits_of(q[row : row + step.rows]).ravel()
            case Operation.LOAD_KEYS:
                yield step, bits_of(k[needed[key : key + step.keys]]).ravel()
                key += step.keys
            case Operation.LOAD_VALUES:
                yield step, bits_of(v[needed[value : value + step.keys]]).ravel()
                value += step.keys
            case _:
                yield step, words[1][row : row + step.rows].ravel()
                row, key, value = row + step.rows, 0, 0
        if row == head.pattern.rows:
            return


def _three_operators(design: Design, head: Head, given: Inputs, steps: Iterator[Step]) -> Iterator[tuple[Step, Words]]:
    """Scores, probabilities and outputs, each of them complete before the next is begun."""
    numbers, q, k, v = _operands(design, head, given)
    scores = _product(numbers, q, k)
    hidden = ~head.pattern.required(0, len(q), np.arange(len(k), dtype=np.int64))
    weights, softmax = np.where(hidden, -np.inf, scores).astype(scores.dtype), RowSoftmax(numbers)
    for _ in range(len(q)):
        for operation in (Operation.MAXIMUM, Operation.EXPONENTIALS, Operation.SUM, Operation.NORMALISE):
            softmax.do(operation, weights)
    yield from _product_transfers(q, k, scores, steps)
    for row in range(len(q)):
        yield next(steps), bits_of(scores[row])
        yield next(steps), bits_of(weights[row])
    yield from _product_transfers(weights, v.T, _product(numbers, weights, v.T), steps)


def _product(numbers: Numbers, left: Values, right: Values) -> Values:
    total: Values = np.zeros((len(left), len(right)), dtype=numbers.dtype)
    for at in range(left.shape[1]):
        total = numbers.add_product(total, left[:, at, None], right[None, :, at])
    return total


def _product_transfers(
    left: Values, right: Values, result: Values, steps: Iterator[Step]
) -> Iterator[tuple[Step, Words]]:
    row = column = depth = 0
    while row < len(left):
        step = next(steps)
        rows, columns = slice(row, row + step.rows), slice(column, column + step.keys)
        if step.operation is Operation.LOAD_COLUMNS:
            yield step, np.concatenate([bits_of(left[rows, depth]), bits_of(right[columns, depth])])
            depth += 1
            continue
        yield step, bits_of(result[rows, columns]).ravel()
        depth, column = 0, columns.stop % len(right)
        row += step.rows if column == 0 else 0
