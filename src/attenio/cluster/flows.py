"""Every message of a layout, stage by stage, as ranks and words: for levels of links and their simulation.

Rows and keys come in two rounds, from their homes and from those that pass some on. Messages of a rank are in turns,
to the rank after it first, so that not all begin with the same one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attenio.cluster.loads import Flows
from attenio.cluster.traffic import STAGES, passes
from attenio.cluster.words import Stage, stage_widths
from attenio.workload import Direction, Workload


@dataclass(frozen=True, kw_only=True)
class Round:
    """Messages that need nothing of each other; ``is_passed_on`` of tokens that others than their homes send."""

    direction: Direction
    stage: Stage
    is_passed_on: bool
    flows: Flows

    @property
    def overlaps_compute(self) -> bool:
        """Whether ranks compute with what they have meanwhile: they wait for all rows, and for keys of homes."""
        return self.is_passed_on and self.stage is Stage.GATHER_KEYS


class TokensBetween(Protocol):
    """Tokens of a head group from rank to rank in one pass."""

    def rows(self) -> Flows:
        """Rows from their homes to those that compute with them."""

    def keys(self) -> Flows:
        """Keys from their homes to those that compute with them, whoever passes them on."""

    def rows_first(self) -> Flows:
        """Rows that homes send."""

    def rows_second(self) -> Flows:
        """Rows that are passed on."""

    def keys_first(self) -> Flows:
        """Keys that homes send."""

    def keys_second(self) -> Flows:
        """Keys that are passed on."""


def rounds_of(
    workload: Workload, heads: int, devices: int, between: Callable[[Workload], TokensBetween]
) -> Iterator[Round]:
    """The rounds of all passes of a workload, in order."""
    for work in passes(workload):
        messages = between(work)
        rows, keys = messages.rows(), messages.keys()
        for stage in STAGES[work.direction]:
            widths = stage_widths(work, stage)
            row = work.batch * (work.heads // heads) * widths.row
            key = work.batch * (work.kv_heads // heads) * widths.key
            if stage is Stage.GATHER_QUERIES:
                both = messages.rows_first(), messages.rows_second()
            elif stage is Stage.GATHER_KEYS:
                both = messages.keys_first(), messages.keys_second()
            else:
                home = rows if widths.row else keys
                both = Flows(home.targets, home.sources, home.words), Flows.none()
            for is_passed_on, some in zip((False, True), both, strict=True):
                if len(some.words):
                    flows = _in_turns(some, row if widths.row else key, devices)
                    yield Round(direction=work.direction, stage=stage, is_passed_on=is_passed_on, flows=flows)


def _in_turns(some: Flows, width: int, ranks: int) -> Flows:
    order = np.lexsort((some.sources, (some.targets - some.sources) % ranks))
    return Flows(some.sources[order], some.targets[order], width * some.words[order])


def summed(flows: Flows, ranks: int) -> Flows:
    """One message from a rank to another; nobody sends to itself."""
    both, at = np.unique(flows.sources * ranks + flows.targets, return_inverse=True)
    words = np.zeros(len(both), dtype=np.int64)
    np.add.at(words, at, flows.words)
    some = (words > 0) & (both // ranks != both % ranks)
    return Flows(both[some] // ranks, both[some] % ranks, words[some])
