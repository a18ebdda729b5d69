"""Whole rows and keys of one head on devices that own its tokens: how much can own tokens save?

    .venv/bin/python studies/many-devices-planned/single_tokens.py

One token is drawn from every home. Devices that do not own it have its row or its key, for one each; owners have both
for nothing, and every pair of drawn tokens is made by a device that has the row and the key. A token that costs less
than three saves the rest. It is single if the same one device has its row and its key, and then it saves one. How much
do all tokens save if no device has more than so many single ones? An exact search over all drawn tokens, with all sets
of devices. Writes single_tokens.md. docs/theory/devices_single_tokens.md proves that
tokens which are not single save 11 at most, however many are drawn.
"""

from pathlib import Path

from ortools.sat.python import cp_model

HERE = Path(__file__).parent
TOKENS = 10


def most_saved(tokens: int, single: int) -> int:
    """What tokens that cost less than three save at most, if no device has more than so many single ones."""
    model, every = cp_model.CpModel(), range(tokens)
    rows, keys = ([[model.new_bool_var("") for _ in every] for _ in every] for _ in range(2))  # [token, device]
    saves = [model.new_bool_var("") for _ in every]
    for token in every:
        model.add(rows[token][token] + keys[token][token] == 0)
        model.add(sum(rows[token]) + sum(keys[token]) <= 2 * saves[token])
        for before in range(token):
            ways = [keys[before][token], rows[token][before], ~saves[token], ~saves[before]]
            for device in set(every) - {token, before}:
                ways.append(makes := model.new_bool_var(""))
                model.add_implication(makes, rows[token][device])
                model.add_implication(makes, keys[before][device])
            model.add_bool_or(ways)
    for device in every:
        singles = []
        for token in set(every) - {device}:
            singles.append(both := model.new_bool_var(""))
            model.add_bool_or([~rows[token][device], ~keys[token][device], both])
        model.add(sum(singles) <= single)
    model.maximize(sum(3 * saves[token] - sum(rows[token]) - sum(keys[token]) for token in every))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


def main() -> None:
    lines = [
        f"# What {TOKENS} drawn tokens save, by single ones of a device",
        "",
        "| single tokens of a device, at most | saved by all tokens | besides these |",
        "|--:|--:|--:|",
    ]
    for single in range(4):
        saved = most_saved(TOKENS, single)
        lines.append(f"| {single} | {saved} | {saved - single} |")
    lines.append("")
    (HERE / "single_tokens.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
