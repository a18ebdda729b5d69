"""Does Strassen's product move fewer words for the scores, and how tight is the bound that it cannot beat?

    .venv/bin/python studies/fast-products/run.py

counts the words of QKᵀ by ordinary products and by Strassen's method, runs some of them on the counted memory, sends
epochs of recorded schedules as messages over six prime fields, and writes results.json and answer.md beside this file.
A few minutes.
"""

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict
from math import sqrt
from pathlib import Path

import numpy as np
from answer import write_answer

from attenio.bounds.fast_products import explicit_scores_per_epoch, fast_product_words
from attenio.bounds.product import product_words
from attenio.dataflows import execute
from attenio.fast_products.compression import compress_all, epochs, random_elements, recover
from attenio.fast_products.entropy import (
    all_elements,
    distinct_values,
    entry_floor,
    entry_mask,
    jacobian_rank,
    message_floor,
    published_floor,
)
from attenio.fast_products.product import classical_product, random_factors, strassen_product
from attenio.fast_products.program import Program, program_of
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import (
    best_levels,
    best_strassen_words,
    best_tile,
    classical_words,
    fitting_levels,
    most_levels,
    strassen_words,
)
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow, best_plan_for
from attenio.workload import Workload

HERE = Path(__file__).parent
PRIMES = (2, 3, 5, 7, 97, 65521)
Row = dict[str, object]


def square(n: int, d: int) -> Shape:
    return Shape(rows=n, keys=n, depth=d)


def ordinary(shape: Shape, fast_words: int) -> int:
    return classical_words(shape, best_tile(shape, fast_words))


def surviving_words(shape: Shape, fast_words: int) -> int:
    """Loads that no algorithm saves, plus the stores of all scores."""
    loads = int(fast_product_words(float(shape.scores), float(shape.depth), float(fast_words)))
    return max(loads, shape.input_words) + shape.scores


def ordinary_floor(shape: Shape, fast_words: int) -> int:
    """What every order of the ordinary products moves at least."""
    floor = product_words(shape.rows, shape.keys, shape.depth, fast_words=fast_words)
    return max(floor, surviving_words(shape, fast_words))


def split_into_squares(shape: Shape, fast_words: int) -> int:
    """The product as (n/d)² products of d x d blocks, each by Strassen's method."""
    return (shape.rows // shape.depth) ** 2 * best_strassen_words(square(shape.depth, shape.depth), fast_words)


def table() -> Iterator[Row]:
    for n in (256, 1024, 4096, 16384):
        for d in (64, 128, 256, 1024, 4096, 16384):
            for fast_words in (64, 1024, 16384, 262144) if d <= n else ():
                shape = square(n, d)
                words, strassen = ordinary(shape, fast_words), best_strassen_words(shape, fast_words)
                levels = min(
                    range(1, most_levels(shape) + 1), key=lambda count: strassen_words(shape, fast_words, count)
                )
                textbook = fitting_levels(shape, fast_words)
                floor = surviving_words(shape, fast_words)
                yield {
                    "n": n,
                    "d": d,
                    "fast_words": fast_words,
                    "ordinary_words": words,
                    "strassen_words": strassen,
                    "strassen_levels": levels,
                    "strassen_over_ordinary": round(strassen / words, 4),
                    "until_it_fits_levels": textbook,
                    "until_it_fits_words": strassen_words(shape, fast_words, textbook),
                    "split_into_squares_words": split_into_squares(shape, fast_words),
                    "ordinary_floor_words": ordinary_floor(shape, fast_words),
                    "surviving_floor_words": floor,
                    "ordinary_over_surviving_floor": round(words / floor, 3),
                    "strassen_over_surviving_floor": round(strassen / floor, 3),
                }


def where_it_pays() -> Iterator[Row]:
    """For heads of usual width: every memory with which Strassen's method moves fewer words, n = 16,384."""
    for d in (64, 128, 256):
        tried = range(7, d * d // 32)
        wins = [words for words in tried if best_levels(square(16384, d), words) > 0]
        yield {
            "n": 16384,
            "d": d,
            "tried_up_to_fast_words": tried[-1],
            "pays_from": wins[0],
            "pays_up_to": wins[-1],
            "gaps": wins[-1] - wins[0] + 1 - len(wins),
            "d_over_root_of_last": round(d / sqrt(wins[-1]), 2),
        }


def from_which_depth() -> Iterator[Row]:
    """For given memories: the first multiple of 16 at which it pays, for squares and for 65,536 keys."""
    for fast_words in (64, 256, 1024, 4096, 16384, 65536):
        row: Row = {"fast_words": fast_words}
        for name, shape in (("square", lambda d: square(d, d)), ("many_keys", lambda d: square(65536, d))):
            depth = next(d for d in range(16, 2**16, 16) if best_levels(shape(d), fast_words) > 0)
            row |= {f"{name}_depth": depth, f"{name}_over_root": round(depth / sqrt(fast_words), 2)}
        beaten = (
            d
            for d in range(16, 2**16, 16)
            if best_strassen_words(square(d, d), fast_words) < product_words(d, d, d, fast_words=fast_words)
        )
        yield row | {"below_ordinary_floor_from_square": next(beaten)}


def executed() -> Iterator[Row]:
    """Runs on the counted memory; the last one moves less than any order of ordinary products must."""
    cases = [
        (Shape(rows=64, keys=64, depth=64), 64, 1),
        (Shape(rows=97, keys=61, depth=45), 30, 2),
        (Shape(rows=128, keys=128, depth=128), 64, 2),
        (Shape(rows=256, keys=256, depth=64), 64, 1),
        (Shape(rows=528, keys=528, depth=528), 64, best_levels(square(528, 528), 64)),
    ]
    for shape, fast_words, levels in cases:
        factors = random_factors(shape)
        run = strassen_product(*factors, fast_words=fast_words, levels=levels)
        predicted = strassen_words(shape, fast_words, levels)
        row: Row = {
            "rows": shape.rows,
            "keys": shape.keys,
            "depth": shape.depth,
            "fast_words": fast_words,
            "levels": levels,
            "strassen_counted": run.moved_words,
            "strassen_predicted": predicted,
            "strassen_max_abs_error": run.max_abs_error,
            "peak_words": run.peak_words,
        }
        if shape.depth <= 128:
            plain = classical_product(*factors, fast_words=fast_words)
            row |= {"ordinary_counted": plain.moved_words, "ordinary_max_abs_error": plain.max_abs_error}
        row |= {
            "ordinary_predicted": ordinary(shape, fast_words),
            "ordinary_floor": product_words(shape.rows, shape.keys, shape.depth, fast_words=fast_words),
            "surviving_floor": surviving_words(shape, fast_words),
        }
        assert run.moved_words == predicted
        assert row.get("ordinary_counted", row["ordinary_predicted"]) == row["ordinary_predicted"]
        yield row


def recorded(kind: str, shape: Shape, fast_words: int) -> Program:
    """A recorded schedule with its best tiles on this memory."""
    if kind in ("ordinary", "strassen"):
        levels = 2 if kind == "strassen" else 0
        run = strassen_product(*random_factors(shape), fast_words=fast_words, levels=levels, record=True)
        return program_of(run.trace, depth=shape.depth)
    workload = Workload(queries=shape.rows, keys=shape.keys, d=shape.depth)
    plan = best_plan_for(workload, fast_words, dataflow=Dataflow(kind))
    return program_of(execute(plan, record=True).trace, depth=shape.depth)


def messages() -> Iterator[Row]:
    cases = [
        (kind, square(n, d), fast_words)
        for n, d, fast_words in ((48, 2, 32), (48, 4, 128), (32, 8, 32), (32, 16, 64))
        for kind in ("ordinary", "rank-one-tiling", "attenio", "strassen")
        if not (kind == "attenio" and fast_words < 3 * d + 4)
    ]
    for kind, shape, fast_words in cases:
        program, d = recorded(kind, shape, fast_words), shape.depth
        found = epochs(program, moved_words=fast_words)
        wrong = dict.fromkeys(PRIMES, 0)
        for prime in PRIMES:
            Q, K = random_elements(shape, prime=prime, seed=prime)
            exact = Q @ K.T % prime
            for epoch, message in zip(found, compress_all(found, Q, K, prime=prime), strict=True):
                wrong[prime] += sum(int(value != exact[at]) for at, value in recover(message, epoch).items())
        richest = max(found, key=lambda epoch: len(epoch.entries))
        entries = entry_mask(shape, richest.entries)
        count, length = int(entries.sum()), len(richest.held) + len(richest.loaded)
        freedom = jacobian_rank(entries, d)
        yield {
            "schedule": kind,
            "n": shape.rows,
            "d": d,
            "fast_words": fast_words,
            "epochs": len(found),
            "epochs_with_scores": sum(bool(epoch.entries) for epoch in found),
            "wrong_entries": sum(wrong.values()),
            "longest_message": max(len(epoch.held) + len(epoch.loaded) for epoch in found),
            "budget_words": 2 * fast_words,
            "richest_entries": count,
            "richest_message": length,
            "richest_held": len(richest.held),
            "richest_loaded": len(richest.loaded),
            "degrees_of_freedom": freedom,
            "floor_by_rows_and_columns": message_floor(entries, d, prime=65521),
            "floor_by_rows_and_columns_two_elements": message_floor(entries, d, prime=2),
            "floor_by_count": round(entry_floor(count, d), 2),
            "floor_as_published": round(published_floor(count, d), 2),
            "message_over_freedom": round(length / freedom, 3) if freedom else None,
            "message_over_floor_by_count": round(length / entry_floor(count, d), 3) if count else None,
            "entries_allowed_by_the_bound": int(explicit_scores_per_epoch(2.0 * fast_words, float(d))),
        }


def tiny_fields() -> Iterator[Row]:
    """All Q and K over tiny fields: how many values the scores of an epoch take, against its message."""
    for prime, shape in ((2, square(4, 2)), (2, Shape(rows=3, keys=3, depth=3)), (3, square(3, 2))):
        Q, K = all_elements(shape, prime=prime)
        for kind in ("ordinary", "strassen"):
            found = epochs(recorded(kind, shape, 13), moved_words=13)
            scoring = [epoch for epoch in found if epoch.entries]
            facts = []
            for epoch, message in zip(scoring, compress_all(scoring, Q, K, prime=prime), strict=True):
                values = distinct_values(recover(message, epoch).values(), prime=prime)
                floor = message_floor(entry_mask(shape, epoch.entries), shape.depth, prime=prime)
                assert prime**floor <= values <= prime ** len(message.words)
                facts.append((len(epoch.entries), len(message.words), values, floor))
            count, length, values, floor = max(facts)
            yield {
                "prime": prime,
                "shape": str(shape),
                "schedule": kind,
                "fast_words": 13,
                "pairs": prime**shape.input_words,
                "epochs_with_scores": len(facts),
                "richest_entries": count,
                "richest_message": length,
                "richest_values": values,
                "richest_words_held_by_the_values": round(float(np.log(values) / np.log(prime)), 3),
                "richest_floor": floor,
            }


def main() -> None:
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    results: dict[str, object] = {"provenance": made_by}
    for name, rows in (
        ("table", table()),
        ("where_it_pays", where_it_pays()),
        ("from_which_depth", from_which_depth()),
        ("executed", executed()),
        ("messages", messages()),
        ("tiny_fields", tiny_fields()),
    ):
        found = []
        for row in rows:
            print(name, row, flush=True)
            found.append(row)
        results[name] = found
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_answer()


if __name__ == "__main__":
    main()
