"""The answer as text: every number in it is formatted from the results of ``run.py``.

    .venv/bin/python studies/fast-products/answer.py

writes answer.md anew from the results.json that is there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from attenio.files import write_atomically

HERE = Path(__file__).parent
Row = dict[str, Any]
# The rows of the table that are shown: n, d and M.
SHOWN = (
    *((256, 256, M) for M in (64, 1024)),
    *((1024, 1024, M) for M in (64, 1024)),
    *((4096, 4096, M) for M in (1024, 16384)),
    *((16384, 16384, M) for M in (64, 16384, 262144)),
    *((16384, 64, M) for M in (64, 1024, 16384)),
    *((16384, 128, M) for M in (64, 1024, 16384, 262144)),
    (16384, 1024, 1024),
    (16384, 4096, 16384),
)
SHOWN_MESSAGES = ((48, 4, 128), (32, 16, 64))


def paragraph(text: str, first: str = "") -> str:
    return fill(text, 120, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)


def spread(values: list[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def one(rows: list[Row], /, **wanted: object) -> Row:
    (found,) = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return found


def words_table(rows: list[Row]) -> str:
    lines = [
        "| n | d | M | ordinary | Strassen | steps | Strassen / ordinary | ordinary / floor | Strassen / floor |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n, d, fast_words in SHOWN:
        row = one(rows, n=n, d=d, fast_words=fast_words)
        floor = row["surviving_floor_words"]
        lines.append(
            f"| {n:,} | {d:,} | {fast_words:,} | {row['ordinary_words']:,} | {row['strassen_words']:,} |"
            f" {row['strassen_levels']} | {row['strassen_words'] / row['ordinary_words']:.3f} |"
            f" {row['ordinary_words'] / floor:,.2f} | {row['strassen_words'] / floor:,.2f} |"
        )
    return "\n".join(lines)


def findings(results: dict[str, list[Row]]) -> Iterator[str]:
    table, pays, depths, runs = (results[name] for name in ("table", "where_it_pays", "from_which_depth", "executed"))
    *others, last = (f"{row['pays_up_to']} for d = {row['d']}" for row in pays[1:])
    assert all(row["gaps"] == 0 and row["pays_from"] == 7 for row in pays)
    heads = [row for row in table if row["fast_words"] >= row["d"] ** 2]
    yield (
        f"**For attention it does not pay.** At n = {pays[0]['n']:,} it moves fewer words only with up to"
        f" {pays[0]['pays_up_to']} words of fast memory for d = {pays[0]['d']}, {', '.join(others)}"
        f" and {last} (every memory from 7 words to d²/32 was tried). In all {len(heads)} counted cases"
        " with M ≥ d² the ordinary product is within"
        f" {max(row['ordinary_over_surviving_floor'] for row in heads):.1f} of the floor, and Strassen's moves"
        f" {spread([row['strassen_over_ordinary'] for row in heads], '.1f')} times as much as the ordinary one."
    )
    memories = f"M = {min(row['fast_words'] for row in depths):,} to {max(row['fast_words'] for row in depths):,}"
    uneven = one(table, n=4096, d=4096, fast_words=16384)
    yield (
        "**It pays for deep products on small memories.** The first multiple of 16 at which it does is d ="
        f" {spread([row['square_over_root'] for row in depths], '.0f')} √M for squares and"
        f" {spread([row['many_keys_over_root'] for row in depths], '.0f')} √M for 65,536 keys ({memories}). Tiles make"
        f" this uneven: 4,096 x 4,096 x 4,096 on 16,384 words, d = {4096 / 16384**0.5:.0f} √M, still loses by"
        f" {100 * (uneven['strassen_over_ordinary'] - 1):.1f} %."
    )
    run = max(runs, key=lambda row: row["rows"])
    assert run["strassen_counted"] < run["ordinary_floor"]
    assert all(row["strassen_counted"] >= row["surviving_floor"] for row in runs)
    second, deepest = one(depths, fast_words=256), depths[-1]
    yield (
        f"**It goes below the bound on ordinary products**, as it may: a counted run with n = d = {run['rows']}, M ="
        f" {run['fast_words']} and {run['levels']} steps moves {run['strassen_counted']:,} words, where every order of"
        f" the ordinary products moves at least {run['ordinary_floor']:,}. By the recurrence the same happens from"
        f" n = d = {second['below_ordinary_floor_from_square']:,} for M = {second['fast_words']} and from"
        f" {deepest['below_ordinary_floor_from_square']:,} for M = {deepest['fast_words']:,} (first multiples of 16)."
        " No run goes below the surviving bound."
    )
    squares = [row for row in table if row["n"] == row["d"] and row["until_it_fits_levels"] > 0]
    cut = [row for row in table if row["n"] > row["d"]]
    assert all(row["split_into_squares_words"] >= row["strassen_words"] for row in cut)
    early = spread([row["until_it_fits_words"] / row["ordinary_words"] for row in squares], ".2f")
    yield (
        f"**Stop early.** Recursion until three blocks fit moves {early} times the ordinary words for squares that do"
        " not fit as a whole; the best leaves are much larger than the memory. Cutting n x d x n into d x d squares"
        f" first moved no less than halving all three sides at once in any of {len(cut)} cases, since the sums of Q and"
        " K are made anew for every square."
    )
    small = one(runs, rows=128)
    yield (
        "The largest error of a run in single precision against float64, entries standard normal:"
        f" {run['strassen_max_abs_error']:.1e} at n = d = {run['rows']} with {run['levels']} steps;"
        f" {small['strassen_max_abs_error']:.1e} at {small['rows']} with {small['levels']} steps, where the ordinary"
        f" product has {small['ordinary_max_abs_error']:.1e}."
    )
    yield (
        "The surviving bound is far from both where d is much larger than √M. It asks only that scores become explicit;"
        " whether any algorithm comes near it there is not known here."
    )


def messages_table(rows: list[Row]) -> str:
    lines = [
        "| schedule | n | d | M | entries B | message | M + T | freedom | A(E) | by count | published |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n, d, fast_words in SHOWN_MESSAGES:
        for row in rows:
            if (row["n"], row["d"], row["fast_words"]) == (n, d, fast_words):
                name = "strassen, 2 steps" if row["schedule"] == "strassen" else row["schedule"]
                counts = ("richest_entries", "richest_message", "budget_words", "degrees_of_freedom")
                cells = [f"{row[key]}" for key in (*counts, "floor_by_rows_and_columns")]
                cells += [f"{row[key]:.1f}" for key in ("floor_by_count", "floor_as_published")]
                lines.append(f"| {name} | {n} | {d} | {fast_words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tightness(results: dict[str, list[Row]]) -> Iterator[str]:
    rows, tiny = results["messages"], results["tiny_fields"]
    large = one(rows, schedule="attenio", n=48, d=4)
    message, freedom = large["richest_message"], large["degrees_of_freedom"]
    assert message - freedom == large["d"] ** 2
    yield (
        "**Large memory (M > d²).** The message of a rectangle is its rows and its keys, d(a + b) words, and no message"
        f" can be more than d² words shorter: {message} against {freedom}. Up to here the argument is tight. Counting"
        f" by B alone loses a factor of {message / large['floor_by_count']:.1f} ({large['floor_by_count']:.1f} of"
        f" {message}), the published constants another {large['floor_by_count'] / large['floor_as_published']:.1f}."
    )
    small = [row for row in rows if row["fast_words"] < row["d"] ** 2]
    for row in small:
        assert row["degrees_of_freedom"] == row["floor_by_rows_and_columns"] == row["richest_entries"]
    ordinary = [row["message_over_freedom"] for row in small if row["schedule"] == "ordinary"]
    strassen = [row["message_over_freedom"] for row in small if row["schedule"] == "strassen"]
    yield (
        "**Small memory (M < d²).** Entries are independent: freedom equals B, and A(E) finds all of it. The words by"
        " count, B/2, lose two, as published four. The rest is the schedule's: an ordinary epoch carries"
        f" {spread(ordinary, '.1f')} words for each score, Strassen's {spread(strassen, '.2f')}."
    )
    allowed, made, budget = (
        large[name] for name in ("entries_allowed_by_the_bound", "richest_entries", "budget_words")
    )
    unused = (budget / message) ** 2
    yield (
        f"**What the bound lets an epoch do.** With M + T = {budget} and d = {large['d']} it allows {allowed:,} scores;"
        f" AttenIO's epoch makes {made}. Of the factor {allowed / made:.1f}, {unused:.1f} is the budget not used for"
        f" scores ({message} of {budget} words, squared; values and outputs take the rest),"
        f" {allowed / made / unused:.1f} the step from message to count."
    )
    exact = [row for row in tiny if row["richest_values"] == row["prime"] ** row["richest_floor"]]
    (rest,) = (row for row in tiny if row not in exact)
    yield (
        f"**Tiny fields, all Q and K tried.** The entries of the richest epoch take exactly q^A(E) values in"
        f" {len(exact)} of {len(tiny)} cases (4 x 4 x 2 and 3 x 3 x 3 over two elements, 3 x 3 x 2 over three). In the"
        f" other, {rest['richest_entries']} entries of {rest['shape']} over {rest['prime']} elements,"
        f" {rest['richest_values']:,} values hold {rest['richest_words_held_by_the_values']:.2f} words where A(E) is"
        f" {rest['richest_floor']} and the message {rest['richest_message']}."
    )


def answer(results: dict[str, list[Row]]) -> str:
    prediction = (
        "**Prediction.** One step of Strassen's method replaces 2n²d/√M words by 7/8 of them, and pays 4nd + 7/2 n² for"
        " sums of quadrants and for storing seven products instead of one. So it should pay from d ≈ 14√M when there"
        " are many more keys than d, from d ≈ 30√M when n = d, and never near M = d², where attention lives. What no"
        " algorithm can save is min(n²/4, n²d²/4M) loads."
    )
    counted = (
        "**Counted** (`results.json`, made by `run.py`). QKᵀ alone, every score stored, n queries and n keys. Ordinary:"
        " the better of a resident tile of scores and resident rows of Q, with the best tile. Strassen: Winograd's"
        " form, at least one step, with the best number of steps over ordinary products. Floor: the bound that"
        " survives fast products (or reading the inputs), plus storing the scores. Executed runs agree with the"
        " recurrence to the word; large sizes are the recurrence."
    )
    messages = results["messages"]
    assert sum(row["wrong_entries"] for row in messages) == 0
    sent = (
        "Epochs of T = M moved words of recorded runs, sent as messages over the fields of 2, 3, 5, 7, 97 and 65,521"
        " elements. The receiver, who knows the schedule only, recovered every entry: no wrong one in any of the"
        f" {len(messages)} schedules, {sum(row['epochs'] for row in messages):,} epochs, six fields. Below, the epoch"
        " with most entries. Freedom: rank of the Jacobian of its entries. A(E): the theorem on the page. By count:"
        " min(d√B, B/2). Published: min(d√(B/2), B/4)."
    )
    parts = [
        "# Does a fast product move fewer words for the scores?",
        paragraph(prediction),
        paragraph(counted),
        words_table(results["table"]),
        "\n".join(paragraph(text, "- ") for text in findings(results)),
        "# How tight is the compression argument?",
        paragraph(sent),
        messages_table(messages),
        "\n".join(paragraph(text, "- ") for text in tightness(results)),
    ]
    return "\n\n".join(parts) + "\n"


def write_answer() -> None:
    write_atomically(HERE / "answer.md", answer(json.loads((HERE / "results.json").read_text())))


if __name__ == "__main__":
    write_answer()
