"""Keys in pages on a CPU: tiles of pages are gathered one at a time, or read where they are, and never the whole.

for each part (tokens of one request, or of all that share a run of pages), on a thread:
    for each tile of pages of the part:
        K_j, V_j = those pages, in the precision of the computation;  S = Q K_j^T, scaled, capped, hidden
        P, max, sum, rescale = online softmax of S;  O = rescale O + P V_j
merge (O, max, sum) of the parts of a token

A few rows read pages of the precision of the computation where they are, page by page.

Requests whose pages are one tile together, and that share none, are computed at once.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.pages.plan import PagedPlan, PagePart
from attenio.kernels.call.pages.problem import PagedProblem
from attenio.kernels.call.results import LOG2_E, with_sink
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.tiles import cuts
from attenio.kernels.cpu.workers import run_all

# Keys of a tile and rows of one: scores and a tile of one head stay in a core's cache.
KEY_TILE, ROW_TILE = 512, 512
# Rows of a part, and keys of a page, for which keys are read where they are: gathering takes as long as the products.
FEW_ROWS, LEAST_PAGE = 16, 16
# What each of the 256 codes of e4m3 stands for: looked up, entries are converted in less than half of the time.
_E4M3 = torch.arange(256, dtype=torch.uint8, device="cpu").view(torch.float8_e4m3fn).float()
# Entries of keys and values that are one tile together.
ONE_TILE = 2**20


def attend(problem: PagedProblem, plan: PagedPlan, *, wants_lse: bool = True) -> tuple[Tensor, Tensor | None]:
    """Outputs (tokens, heads, width) and, if they are wanted, log-sum-exps (tokens, heads), the natural ones."""
    tokens, heads = problem.query.shape[:2]
    entries = problem.placement.table.numel() * problem.page_size * problem.kv_heads
    small = 0 < entries * (problem.query.shape[2] + problem.width) <= ONE_TILE
    if plan.tree.is_flat and problem.starts is None and tokens and small:
        tile = _one_tile(problem)
        if tile.sees and not wants_lse:
            return _by_softmax(problem, tile), None
        together = _at_once(problem, tile)
    else:
        together = _in_parts(problem, plan)
    if problem.sinks is not None:
        sink = (problem.sinks.detach().to(problem.precision) * LOG2_E).view(1, problem.kv_heads, problem.group, 1)
        together.largest, total, kept = with_sink(together.largest, together.total, sink.expand_as(together.largest))
        output = together.normalised() * kept
        together.total = total
    else:
        output = together.normalised()
    lse = together.largest / LOG2_E + torch.log(together.total)
    return output.flatten(1, 2).to(problem.query.dtype), lse.reshape(tokens, heads)


def _in_parts(problem: PagedProblem, plan: PagedPlan) -> Sums:
    """Sums (tokens, KV heads, group, ...) of all parts, merged."""
    parts = _for_threads(problem, plan)
    sums = run_all(lambda part: _fold(problem, part), parts)
    shape = (problem.query.shape[0], problem.kv_heads, problem.group)
    together = Sums.empty(shape, problem.width, problem.precision, subtracts=True)
    for part, given in zip(parts, sums, strict=True):
        _add(together, part, given, problem.group)
    return together


class _OneTile(NamedTuple):
    """All keys of requests as one tile: their pages, which scores are hidden, which places are past the last key.

    ``sees``: every token sees a key.
    """

    pages: Tensor
    hidden: Tensor | None
    past: Tensor | None
    sees: bool


def _one_tile(problem: PagedProblem) -> _OneTile:
    """The tile of a call, found once for a table: layers share it."""
    known, size, new = problem.placement.known, problem.page_size, problem.new
    assert known is not None
    key = ("one tile", size, new, problem.left, problem.right, problem.group, problem.key.shape[0])
    if key not in known.plans:
        most = int(known.lengths.max(initial=0))
        places = problem.placement.table[:, : max(1, -(-most // size))]
        pages = places.clamp(0, problem.key.shape[0] - 1).to(torch.int64)
        lengths = torch.from_numpy(known.lengths)
        here, last = torch.arange(pages.shape[1] * size), lengths[:, None, None]
        at = last - new + torch.arange(new)[:, None]
        hidden = (here >= last) | (here < at - problem.left) | (here > at + problem.right)
        past = (here >= lengths[:, None])[:, None, :, None]
        sees = not bool(hidden.all(-1).any())
        rows = hidden.repeat_interleave(problem.group, 1)[:, None] if bool(hidden.any()) else None
        known.plans[key] = _OneTile(pages, rows, past if bool(past.any()) else None, sees)
    one_tile: _OneTile = known.plans[key]
    note_launch("pages at once", keys=int(known.lengths.max(initial=0)), requests=problem.requests)
    return one_tile


def _scores(problem: PagedProblem, tile: _OneTile, factor: float) -> tuple[Tensor, Tensor]:
    """Scores (requests, KV heads, rows, keys) times a factor, -inf where hidden, and values; rows as (token, head)."""
    count, size = problem.requests, problem.page_size
    flat = tile.pages.flatten()
    K, V = (
        _tile(pool, flat, size * len(flat), problem.precision).unflatten(1, (count, -1)).transpose(0, 1)
        for pool in (problem.key, problem.value)
    )
    query = problem.query.to(problem.precision).view(count, problem.new, problem.kv_heads, problem.group, -1)
    S = query.transpose(1, 2).flatten(2, 3) @ K.transpose(2, 3)
    if problem.scales is not None:
        S.mul_(_of_pages(problem.scales[0], tile.pages, size))
    if problem.softcap:
        S.mul_(problem.scale / problem.softcap).tanh_().mul_(problem.softcap * factor)
    else:
        S.mul_(problem.scale * factor)
    if tile.hidden is not None:
        S.masked_fill_(tile.hidden, -torch.inf)
    # what lies past the last key may be anything, and 0 times it NaN
    return S, V if tile.past is None else V.masked_fill(tile.past, 0.0)


def _by_softmax(problem: PagedProblem, tile: _OneTile) -> Tensor:
    """Outputs of requests with as many new tokens each, by PyTorch's softmax over all keys, with the sink of a head."""
    S, V = _scores(problem, tile, 1.0)
    if problem.sinks is None:
        P = torch.softmax(S, -1)
    else:
        sinks = problem.sinks.detach().to(problem.precision).view(problem.kv_heads, 1, problem.group)
        beside = sinks.expand(-1, problem.new, -1).reshape(1, problem.kv_heads, -1, 1)
        P = torch.softmax(torch.cat([S, beside.expand(S.shape[0], -1, -1, -1)], -1), -1)[..., :-1]
    if problem.scales is not None:
        P = P * _of_values(problem.scales[1], tile, problem.page_size)
    output = (P @ V).unflatten(2, (problem.new, -1)).transpose(1, 2).flatten(0, 1)
    return output.flatten(1, 2).to(problem.query.dtype)


def _at_once(problem: PagedProblem, tile: _OneTile) -> Sums:
    """The sums of the same, all keys as one tile."""
    S, V = _scores(problem, tile, LOG2_E)
    largest = S.amax(-1, keepdim=True)
    P = torch.exp2(S.sub_(torch.where(largest == -torch.inf, 0.0, largest)))
    total = P.sum(-1, keepdim=True)
    if problem.scales is not None:
        P.mul_(_of_values(problem.scales[1], tile, problem.page_size))
    shaped = (x.unflatten(2, (problem.new, -1)).transpose(1, 2).flatten(0, 1) for x in (P @ V, largest, total))
    outputs, highest, weights = shaped
    return Sums(output=outputs.contiguous(), largest=highest, total=weights, subtracts=True)


def _of_pages(scales: Tensor, pages: Tensor, size: int) -> Tensor:
    """What the keys of the pages of each request are multiplied by, (requests, KV heads, 1, keys)."""
    return scales[pages].repeat_interleave(size, 1).transpose(1, 2)[:, :, None]


def _of_values(scales: Tensor, tile: _OneTile, size: int) -> Tensor:
    """The same for values: 0 past the last key, where a page may be anyone's, and its factor NaN."""
    factors = _of_pages(scales, tile.pages, size)
    return factors if tile.past is None else factors.masked_fill(tile.past.transpose(2, 3), 0.0)


def _for_threads(problem: PagedProblem, plan: PagedPlan) -> list[PagePart]:
    """Parts cut into tiles of rows, and into runs of keys where they are too few to keep the threads busy."""
    rows = max(1, ROW_TILE // problem.group)
    parts = [
        part._replace(tokens=part.tokens[cut]) for part in plan.parts for cut in cuts(len(part.tokens), rows)
    ]  # fmt: skip
    work = sum(part.stop - part.first for part in parts)
    most = max(KEY_TILE, -(-work // (2 * torch.get_num_threads())))
    most = -(-most // problem.page_size) * problem.page_size
    return [
        part._replace(first=run.start, stop=run.stop) for part in parts for run in cuts(part.stop, most, part.first)
    ]


def _fold(problem: PagedProblem, part: PagePart) -> Sums:
    """The sums (KV heads, rows, ...) of a part; the heads of a token follow each other."""
    size, kv_heads, group = problem.page_size, problem.kv_heads, problem.group
    per_tile = max(1, KEY_TILE // size)
    note_launch("pages", part=part, key_tile=per_tile * size)
    query = problem.query[torch.from_numpy(part.tokens)].to(problem.precision)
    Q = query.unflatten(1, (kv_heads, group)).transpose(0, 1).reshape(kv_heads, -1, query.shape[-1])
    sums = Sums.empty(Q.shape[:2], problem.width, problem.precision, subtracts=True)
    rows, table = slice(0, Q.shape[1]), problem.placement.table[part.request]
    reads_pages = problem.key.dtype == problem.precision and Q.shape[1] <= FEW_ROWS and size >= LEAST_PAGE
    for places in cuts(-(-part.stop // size), per_tile, part.first // size):
        pages = table[places].to(torch.int64)
        keys = slice(places.start * size, min(places.stop * size, part.stop))
        count = keys.stop - keys.start
        if reads_pages:
            some = _pages_as_they_lie(pages, size, count)
            S = torch.cat([torch.bmm(Q, problem.key[page, :stop].permute(1, 2, 0)) for page, _, stop in some], 2)
        else:
            K, V = (_tile(pool, pages, count, problem.precision) for pool in (problem.key, problem.value))
            S = torch.bmm(Q, K.transpose(1, 2))
        if problem.scales is not None:
            S.mul_(_factors(problem.scales[0], pages, size, count))
        _as_exponents(problem, S)
        if part.hides:
            _hide(problem, S, part, keys)
        P = sums.weigh(S, rows)
        if problem.scales is not None:
            P.mul_(_factors(problem.scales[1], pages, size, count))
        if not reads_pages:
            sums.output.baddbmm_(P, V)
            continue
        for page, first, stop in some:
            sums.output.baddbmm_(P[:, :, first : first + stop], problem.value[page, :stop].transpose(0, 1))
    return sums


def _pages_as_they_lie(pages: Tensor, size: int, count: int) -> list[tuple[int, int, int]]:
    """Pages of a tile of ``count`` keys: their numbers, the place of their first key in it, and how many of it."""
    return [(page, at * size, min(size, count - at * size)) for at, page in enumerate(pages.tolist())]


def _tile(pool: Tensor, pages: Tensor, count: int, precision: torch.dtype) -> Tensor:
    """(KV heads, keys, width) of some pages."""
    if pool.dtype == torch.float8_e4m3fn:
        codes = pool.view(torch.uint8).index_select(0, pages).flatten(0, 1)[:count]
        tile = _E4M3.to(precision).index_select(0, codes.flatten().int()).view(codes.shape)
    else:
        tile = pool.index_select(0, pages).flatten(0, 1)[:count].to(precision)
    return tile.transpose(0, 1)


def _factors(scales: Tensor, pages: Tensor, size: int, count: int) -> Tensor:
    """What the keys of some pages are multiplied by, (KV heads, 1, keys)."""
    return scales[pages].repeat_interleave(size, 0)[:count].T[:, None]


def _as_exponents(problem: PagedProblem, scores: Tensor) -> None:
    if problem.softcap:
        scores.mul_(problem.scale / problem.softcap).tanh_().mul_(problem.softcap * LOG2_E)
    else:
        scores.mul_(problem.scale * LOG2_E)


def _hide(problem: PagedProblem, scores: Tensor, part: PagePart, keys: slice) -> None:
    """-inf where a token does not see a key: the last token of a request stands at its last key."""
    assert problem.known_starts is not None and problem.placement.known is not None
    last = int(problem.placement.known.lengths[part.request]) - int(problem.known_starts[part.request + 1])
    at = torch.from_numpy((part.tokens + last).repeat(problem.group))[:, None]
    here = torch.from_numpy(np.arange(keys.start, keys.stop))
    scores.masked_fill_((here < at - problem.left) | (here > at + problem.right), -torch.inf)


def _add(together: Sums, part: PagePart, given: Sums, group: int) -> None:
    """Merge the sums of a part into those of its tokens."""
    tokens = torch.from_numpy(part.tokens)
    output, largest, total = (
        x.unflatten(1, (-1, group)).transpose(0, 1) for x in (given.output, given.largest, given.total)
    )
    before = together.largest[tokens]
    higher = torch.maximum(before, largest)
    shift = torch.where(higher == -torch.inf, 0.0, higher)
    mine, theirs = torch.exp2(before - shift), torch.exp2(largest - shift)
    together.output[tokens] = together.output[tokens] * mine + output * theirs
    together.total[tokens] = together.total[tokens] * mine + total * theirs
    together.largest[tokens] = higher
