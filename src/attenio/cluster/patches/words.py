"""The words that every rank of a patchwork sends and receives, stage by stage: exact.

Of keys that several ranks need, some are passed on by one of these (``sources``), and rows where that does not do, so
that no rank sends far more than the mean; no word is sent twice for that.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from attenio.cluster import traffic as tokens_of_ranks
from attenio.cluster.layout import Counts
from attenio.cluster.patches.layout import Choices, Patchwork, holdings
from attenio.cluster.patches.sources import Needs, sources
from attenio.cluster.traffic import STAGES, WidthsOf, check_layout, passes, words_of_stages
from attenio.cluster.words import Stage, StageWords, stage_widths
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic(tokens_of_ranks.Traffic):
    """Tokens that ranks send and get, and from which rank a rank has the rows and the keys of a block.

    Sources are [head, block, rank], -1 where a rank owns the block or does without it.
    """

    row_sources: Counts
    key_sources: Counts


def patches_words(workload: Workload, patchwork: Patchwork, widths: WidthsOf = stage_widths) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage of the workload's direction; widths may be in bytes.

    >>> from attenio.cluster.patches import tables
    >>> workload = Workload(n=1024, d=64, heads=8, mask="causal")
    >>> [(each.stage.value, int(each.sent.max())) for each in patches_words(workload, tables()[0])]
    [('gather-queries', 65536), ('gather-keys', 139264), ('reduce-outputs', 66560)]
    """
    check_layout(workload, patchwork.heads, "patches")
    return words_of_stages(workload, patchwork.heads, partial(traffic, patchwork=patchwork), widths)


def least_words_per_device(workload: Workload, patchwork: Patchwork) -> int:
    """Words that the busiest rank sends at least, however evenly tokens are passed on: the mean."""
    total = sum(int(_from_owners(each, patchwork).sent.sum()) for each in passes(workload))
    return -(-total // patchwork.devices)


class _FromOwners(NamedTuple):
    """Tokens of one pass if owners send them all, and the words that every rank sends then.

    Rows and keys that ranks need and do not own are [rank, head, block]; ``row`` and ``key`` have the words of a token
    in every stage.
    """

    rows: Choices
    keys: Choices
    rows_out: Counts
    rows_in: Counts
    keys_out: Counts
    keys_in: Counts
    row: dict[Stage, int]
    key: dict[Stage, int]
    sent: Counts


@lru_cache(maxsize=64)
def _from_owners(workload: Workload, patchwork: Patchwork) -> _FromOwners:
    sizes, has = patchwork.sizes(workload.keys), holdings(patchwork)
    owners, ranks = np.array(patchwork.owners, dtype=np.int64), patchwork.devices
    mine = owners[None] == np.arange(ranks, dtype=np.int64)[:, None]  # [rank, block]
    rows, keys = has.rows & ~mine[:, None], has.keys & ~mine[:, None]
    rows_in, keys_in = ((each * sizes).sum(axis=(1, 2)) for each in (rows, keys))
    rows_out, keys_out = ((mine * (sizes * each.sum(axis=(0, 1)))).sum(axis=1) for each in (rows, keys))
    width = {stage: stage_widths(workload, stage) for stage in STAGES[workload.direction]}
    row = {stage: workload.batch * (workload.heads // patchwork.heads) * each.row for stage, each in width.items()}
    key = {stage: workload.batch * (workload.kv_heads // patchwork.heads) * each.key for stage, each in width.items()}
    sent = key[Stage.GATHER_KEYS] * keys_out + row[Stage.GATHER_QUERIES] * rows_out
    for stage in STAGES[workload.direction][2:]:
        sent = sent + row[stage] * rows_in + key[stage] * keys_in
    return _FromOwners(rows, keys, rows_out, rows_in, keys_out, keys_in, row, key, sent)


@lru_cache(maxsize=64)
def traffic(workload: Workload, patchwork: Patchwork) -> Traffic:
    """Tokens that ranks send and get in one pass."""
    sizes, first = patchwork.sizes(workload.keys), _from_owners(workload, patchwork)
    row_sources, key_sources = sources(
        np.array(patchwork.owners, dtype=np.int64),
        first.sent,
        Needs(first.rows.transpose(1, 2, 0), first.row[Stage.GATHER_QUERIES] * sizes),
        Needs(first.keys.transpose(1, 2, 0), first.key[Stage.GATHER_KEYS] * sizes),
    )
    rows_passed, keys_passed = (_sent(each, sizes, patchwork.devices) for each in (row_sources, key_sources))
    return Traffic(
        rows_out=first.rows_out, rows_in=first.rows_in, rows_passed=rows_passed, keys_in=first.keys_in,
        keys_out=first.keys_out, keys_passed=keys_passed, row_sources=row_sources, key_sources=key_sources,
    )  # fmt: skip


def _sent(sources: Counts, sizes: Counts, ranks: int) -> Counts:
    """Tokens that every rank sends."""
    found = np.zeros(ranks, dtype=np.int64)
    _, block, _ = np.nonzero(sources >= 0)
    np.add.at(found, sources[sources >= 0], sizes[block])
    return found
