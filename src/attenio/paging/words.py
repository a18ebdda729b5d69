"""What a plan on pages moves and holds, in closed form.

With R rows of a part (new tokens of its requests times the heads of a group), N keys in P pages, and of a request with
n new tokens in p parts, for each KV head:

moved = sum over parts:    R d + ceil(R/a) (N k + P s)
      + sum over requests: g n (dv + 2 (p-1) (dv+2) w)
      + g with sinks
peak  = most over parts:   a'(d + (dv+3) w) + a'b'w + b'max(d, dv)/e + s + (dv+2) w where results are joined; + g

k words of a key and its value, s of the scales of a page, e entries of keys in a word, w words of an accumulated value.
"""

from collections import Counter

from attenio.paging.plan import PagedTiles, Part
from attenio.paging.workload import PagedWorkload


def moved_words(workload: PagedWorkload, parts: tuple[Part, ...], tiles: PagedTiles) -> int:
    """Words moved between slow and fast memory."""
    in_parts = Counter(request for part in parts for request in part.requests)
    d, dv, w = workload.d, workload.value_dim, workload.accumulator_words
    total = workload.group if workload.sinks else 0
    for part in parts:
        rows, keys = rows_of(workload, part), part.stop - part.first
        pages = -(-part.stop // workload.page_size) - part.first // workload.page_size
        passes = -(-rows // tiles.row_tile)
        total += rows * d + passes * (keys * workload.key_words + pages * workload.scale_words)
    for request, new in enumerate(workload.new):
        total += workload.group * new * (dv + 2 * (in_parts[request] - 1) * (dv + 2) * w)
    return workload.kv_heads * total


def peak_words(workload: PagedWorkload, parts: tuple[Part, ...], tiles: PagedTiles) -> int:
    """The most words held in fast memory at any time."""
    d, dv, w = workload.d, workload.value_dim, workload.accumulator_words
    of_key, of_page, most = widest(workload), workload.scale_words, 0
    for of_part, span, joins in _kinds_of(workload, parts):
        rows, keys = min(tiles.row_tile, of_part), min(tiles.key_tile, workload.page_size, span)
        held = rows * (d + (dv + 3) * w) + rows * keys * w + keys * of_key + of_page
        most = max(most, held + ((dv + 2) * w if joins else 0))
    return most + (workload.group if workload.sinks else 0)


def _kinds_of(workload: PagedWorkload, parts: tuple[Part, ...]) -> set[tuple[int, int, bool]]:
    """Rows and keys of a part, and whether it joins results: many requests have few of these."""
    before: set[int] = set()
    last = {request: number for number, part in enumerate(parts) for request in part.requests}
    kinds = set()
    for number, part in enumerate(parts):
        joins = any(request in before and last[request] == number for request in part.requests)
        before.update(part.requests)
        kinds.add((rows_of(workload, part), part.stop - part.first, joins))
    return kinds


def rows_of(workload: PagedWorkload, part: Part) -> int:
    """Rows of a part, for one KV head."""
    new = workload.new
    return workload.group * sum([new[request] for request in part.requests])


def widest(workload: PagedWorkload) -> int:
    """Words of a key or of a value, whichever are more: they lie in the same room, one after the other."""
    return (workload.d if workload.values_in_keys else max(workload.d, workload.value_dim)) // workload.per_word
