import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from attenio.fitted_table import FittedTable

ROWS = st.lists(st.tuples(st.integers(1, 10**15), st.integers(1, 10**12), st.sampled_from(["", "as planned here"])))


def table(kind: type[Table], rows: list[tuple[int, int, str]], *, headed: bool) -> Table:
    made = kind(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=headed)
    for header, whole in (("sent (words)", True), ("least", True), ("note", False)):
        made.add_column(header, no_wrap=whole, justify="right" if whole else "left")
    for sent, least, note in rows:
        made.add_row(f"{sent:,}", f"{least:,}", note)
    return made


def rendered(shown: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(rows=ROWS, width=st.integers(34, 90), headed=st.booleans())
def test_numbers_stay_whole_and_lines_within_the_width(
    rows: list[tuple[int, int, str]], width: int, headed: bool
) -> None:
    text = rendered(table(FittedTable, rows, headed=headed), width)
    words = text.split()
    for sent, least, note in rows:
        assert f"{sent:,}" in words and f"{least:,}" in words and all(word in words for word in note.split())
    assert all(len(line) <= width for line in text.splitlines())


@given(rows=ROWS.filter(len), width=st.integers(8, 24))
def test_no_digit_is_lost_where_even_one_number_is_too_long_for_a_line(
    rows: list[tuple[int, int, str]], width: int
) -> None:
    digits = "".join(
        character for character in rendered(table(FittedTable, rows, headed=True), width) if character.isdigit()
    )
    assert sorted(digits) == sorted("".join(f"{sent}{least}" for sent, least, _ in rows))


@given(rows=ROWS)
def test_where_there_is_room_it_is_a_table_like_others(rows: list[tuple[int, int, str]]) -> None:
    assert rendered(table(FittedTable, rows, headed=True), 90) == rendered(table(Table, rows, headed=True), 90)
