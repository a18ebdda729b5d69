from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.problems import Problems
from attenio.planning.search.products import OutputRoom, best_output_tile, least_words
from attenio.planning.words.cuts import column_tiles
from attenio.workload import Workload

from ..strategies import workloads

LAWS = settings(max_examples=26, deadline=None, derandomize=True)


@LAWS
@given(width=st.integers(1, 300))
def test_column_tiles_are_every_count_with_its_narrowest_tile(width: int) -> None:
    counts = {-(-width // columns) for columns in range(1, width + 1)}
    narrowest = {count: min(c for c in range(1, width + 1) if -(-width // c) == count) for count in counts}
    assert column_tiles(width) == tuple(sorted(narrowest.items()))


@LAWS
@given(
    workload=workloads(longest=30, widest=12),
    words=st.integers(1, 500),
    extra=st.integers(1, 3),
    width=st.none() | st.integers(1, 12),
)
def test_no_output_tile_beats_the_best(workload: Workload, words: int, extra: int, width: int | None) -> None:
    problems, room = Problems.separate(workload), OutputRoom(words=words, extra=extra, width=width)
    w, dv = problems.intermediate_words, problems.value_dim if width is None else width
    every = {
        (p, c): -(-dv // c) * problems.counts.scores * w + problems.counts.key_loads(p) * dv
        for c in range(1, dv + 1)
        for p in range(1, problems.counts.most_rows + 1)
        if p * (c + extra) * w <= words
    }
    best = best_output_tile(problems, room)
    if not every:
        assert best is None
        return
    fewest = min(every.values())
    assert best is not None
    rows = min(p for p, c in every if every[p, c] == fewest) if problems.floors.kinks else best.rows
    columns = max(c for p, c in every if p == rows)
    assert (best.words, best.rows, best.columns) == (fewest, rows, columns)
    assert least_words(problems.counts.scores * w, dv, problems.counts.touched_keys, room) * (1 - 1e-12) <= fewest
