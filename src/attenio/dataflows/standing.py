"""What stays in fast memory while the rows of a KV head pass: its scales, and the sinks of its query heads.

    for each KV head:
        load its scales (of keys and of values, or of a latent), where keys take fewer bits
        load the sinks of its query heads
        for each problem of its heads: the loop nest of the dataflow, in what is left of the fast memory

It is loaded once a KV head, and at every level of a nested plan.
"""

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from attenio.dataflows.problem import Problem, Sharing
from attenio.elements import scale_words
from attenio.memory import FastMemory, Matrix, SlowArray, Tile
from attenio.memory.matrix import Values


class Standing:
    """Scales and sinks of the KV head whose turn it is, in all fast memories, the innermost first."""

    def __init__(self, shared: Sharing, memories: tuple[FastMemory, ...]) -> None:
        self._shared, self._memories = shared, memories
        self._residency, self._kv_head = ExitStack(), -1
        self._scales: Values | None = None
        self._sinks: Values | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._residency.close()

    def beside(self, problem: Problem) -> Problem:
        """The problem with what stands beside it: its KV head takes its turn if it has not had it."""
        workload = self._shared.workload
        if not workload.held_words:
            return problem
        kv_head, within = divmod(problem.first_head, workload.group)
        if kv_head != self._kv_head:
            self._turn_to(kv_head)
        if self._sinks is not None:
            sinks = self._sinks[within : within + problem.group]
            problem = replace(problem, sinks=np.repeat(sinks, problem.pattern.rows, axis=0))
        if self._scales is not None:
            arithmetic, (of_keys, of_values) = problem.arithmetic, (float(self._scales[0, at]) for at in (0, -1))
            known = replace(arithmetic, scale=arithmetic.scale * of_keys, value_scale=of_values)
            problem = replace(problem, arithmetic=known)
        return problem

    def _turn_to(self, kv_head: int) -> None:
        self._residency.close()
        self._kv_head, workload, shared = kv_head, self._shared.workload, self._shared
        for fast in self._memories:
            fast.trace.problem = f"KV head {kv_head}"
        if workload.has_scales:
            scales = shared.scales[kv_head : kv_head + 1, : 1 if workload.values_in_keys else 2]
            self._scales = self._held("scales", scales, scale_words(workload.dtype))
        if shared.sinks is not None:
            heads = slice(kv_head * workload.group, (kv_head + 1) * workload.group)
            self._sinks = self._held("sinks", shared.sinks[heads, None], 1)

    def _held(self, name: str, values: Values, words_each: int) -> Values:
        """The values as the innermost memory has them, until the next KV head's turn."""
        rows, columns = (slice(0, size) for size in values.shape)
        source: Matrix = SlowArray(name, values, rows, columns, words_each)
        for fast in reversed(self._memories):
            words = source.words(values.size)
            fast.reserve(name, words)
            self._residency.callback(fast.release, name, words)
            held = Tile(name, np.full_like(values, np.nan), rows, columns, words_each)
            self._residency.callback(held.values.fill, np.nan)
            fast.load(source, held)
            source = held
        return source.values
