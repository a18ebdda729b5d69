"""What the solved games say: tables, a figure and the text of answer.md, every number from the results."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from keeping import keeping_rows
from solved import (
    FORMS,
    PARTIAL,
    STANDARD,
    Form,
    Row,
    Shape,
    Solved,
    against_each_other,
    constants,
    form_of,
    is_other,
    least_words,
    one_pass,
    shape_of,
)
from whole_rows import row_table, row_text

from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.report.line_chart import LineChart, Series
from attenio.workload import Workload


def whole_table(solved: Solved) -> list[str]:
    """Every shape and memory: optima in the four forms, AttenIO, the best dataflow and every proven bound."""
    theorems = list(next(iter(solved.games.values()))["absolute_bounds"])
    titles = ["rows x keys", "d", "M", *FORMS, "AttenIO", "best dataflow", *theorems]
    lines = [_line(titles), _line(["---", *("---:" for _ in titles[1:])])]
    for shape in solved.shapes:
        rows, keys, d = shape
        tops = [solved.one_pass(form, shape) or 0 for form in FORMS.values()]
        reds = sorted({red for (_, other, red) in solved.games if other == shape and red <= max(tops, default=0)})
        for red in reds:
            facts = next(g for (_, other, each), g in solved.games.items() if (other, each) == (shape, red))
            flows = facts["dataflows"]
            best = min(flows, key=flows.get) if flows else ""
            cells = [_cell(solved, form, shape, red) for form in FORMS.values()]
            counted = [flows.get("attenio", "-"), f"{flows[best]} ({best})" if best else "-"]
            bounds = [facts["absolute_bounds"].get(theorem, 0) for theorem in theorems]
            lines.append(_line([f"{rows} x {keys}", d, red, *cells, *counted, *bounds]))
    return lines


def _cell(solved: Solved, form: Form, shape: Shape, red: int) -> str:
    game = solved.games.get((form, shape, red))
    if game is not None and not game["optimal"]:
        return f"{game['proven_words']}..{game['cost_words']}"
    cost = solved.cost(form, shape, red)
    return "" if cost is None else str(cost)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def one_pass_table(solved: Solved) -> list[str]:
    """The least memory for one pass, as keys grow."""
    titles = [
        "rows",
        "d",
        "game",
        "keys: words for one pass",
        "too few, proven",
        "keeping rows",
        "kept keys",
        "AttenIO",
    ]
    lines = [_line(titles), _line(["---:", "---:", "---", "---", "---", "---:", "---:", "---:"])]
    for rows, d in _sizes(solved):
        for name, form in (("standard", STANDARD), ("partial", PARTIAL)):
            shapes = _tried(solved, form, rows, d)
            listed = ", ".join(f"{shape[1]}: {_between(*least_words(solved, form, shape))}" for shape in shapes)
            proof = solved.too_few(form, shapes[-1]) if shapes else None
            few = "" if proof is None else f"{proof[0]}, from {proof[1]} keys on"
            keeping = keeping_rows(rows, d) if form == STANDARD else ""
            flows = [one_pass(rows, d, flow) for flow in (Dataflow.KEPT_KEYS, Dataflow.ATTENIO)]
            lines.append(_line([rows, d, name, listed, few, keeping, *flows]))
    return lines


def _sizes(solved: Solved) -> list[tuple[int, int]]:
    return sorted({(rows, d) for rows, _, d in solved.shapes}, key=lambda size: size[::-1])


def _tried(solved: Solved, form: Form, rows: int, d: int) -> list[Shape]:
    """Shapes with so many rows of that width for which one pass was found, fewest keys first."""
    return [s for s in solved.shapes if (s[0], s[2]) == (rows, d) and solved.one_pass(form, s) is not None]


def _between(least: int, most: int) -> str:
    return str(most) if least == most else f"{least or ''}..{most}"


def verdict(solved: Solved) -> str:
    """How the least memory for one pass, at the most keys tried, compares with that of keeping rows."""
    met, unsettled = [], []
    for rows, d in _sizes(solved):
        shape = _tried(solved, STANDARD, rows, d)[-1]
        proof = solved.too_few(STANDARD, shape)
        least, most = least_words(solved, STANDARD, shape)
        keeping, here = keeping_rows(rows, d), f"{rows} row{'s' * (rows > 1)}, d = {d}"
        if proof is not None and least == most == keeping:
            met.append(f"{here}: {keeping} words, from {proof[1]} keys on")
        else:
            unsettled.append(f"{here}: {_between(least, most)} words at {shape[1]} keys, {keeping} by keeping rows")
    parts = [
        ("Fewer never do, however many the keys", met),
        ("Not settled: so few keys can be served by keeping them, or their scores, instead", unsettled),
    ]
    between = ";\n  "
    return "\n".join(f"- {title}:\n  {between.join(listed)}." for title, listed in parts if listed)


def grown(solved: Solved) -> str:
    """What one row needs as it widens, and what more rows need at width one, where the standard game has settled it."""
    needed = {}
    for rows, d in _sizes(solved):
        least, most = least_words(solved, STANDARD, _tried(solved, STANDARD, rows, d)[-1])
        if least == most == keeping_rows(rows, d):
            needed[rows, d] = most
    widths = sorted(d for rows, d in needed if rows == 1)
    heights = sorted(rows for rows, d in needed if d == 1)
    return (
        f"One row needs {_listed(needed[1, d] for d in widths)} words at d = {_listed(widths)};"
        f" {_listed(heights)} rows need\n{_listed(needed[rows, 1] for rows in heights)} words at d = 1."
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def partial_one_pass(solved: Solved) -> dict[str, int]:
    """How often the partial game serves a shape in one pass with the memory that the standard game takes."""
    differences = []
    for shape in solved.shapes:
        if solved.one_pass(PARTIAL, shape) is None:
            continue
        standard, partial = (least_words(solved, form, shape) for form in (STANDARD, PARTIAL))
        if standard[0] == standard[1] and partial[0] == partial[1]:
            differences.append(partial[1] - standard[1])
    return {"both": len(differences), "same": differences.count(0), "most_more": max(differences)}


def other_table(games: Sequence[Row]) -> list[str]:
    """Masks, other widths and the gradient: optima, the best dataflow and the largest bounds."""
    titles = ["rows x keys", "d, d_v", "mask", "direction", "M: optimum", "best dataflow", "largest bound"]
    lines = [_line(titles), _line(["---", "---:", "---", "---", "---", "---", "---"])]
    forms = {}
    for game in sorted(filter(is_other, games), key=lambda g: g["red"]):
        direction = "backward" if game["softmax"] == "gradient" else "forward"
        form = (f"{game['rows']} x {game['keys']}", f"{game['d']}, {game['value_dim']}", game["mask"], direction)
        forms.setdefault(form, []).append(game)
    for form, mine in sorted(forms.items(), key=lambda each: (each[0][3], each[0][2], each[0][:2])):
        words = (f"{g['red']}: {_between(g['proven_words'], g['cost_words'])}" for g in mine)
        best = (str(min(g["dataflows"].values())) if g["dataflows"] else "-" for g in mine)
        bounds = (str(max(g["absolute_bounds"].values())) for g in mine)
        lines.append(_line([*form, ", ".join(words), ", ".join(best), ", ".join(bounds)]))
    return lines


def constants_table(found: Sequence[Row]) -> list[str]:
    titles = ["game", "rows", "d", "M", "keys", "words a further key", "c"]
    lines = [_line(titles), _line(["---", "---:", "---:", "---:", "---", "---", "---:"])]
    for row in found:
        keys = ", ".join(str(count) for count in row["keys"])
        steps = ", ".join(f"{step:g}" for step in row["steps"])
        lines.append(_line([row["game"], row["rows"], row["d"], row["red"], keys, steps, f"{row['constant']:.1f}"]))
    return lines


def largest(games: Sequence[Row], form: Form) -> str:
    """The solved game with most vertices in which something moves twice."""
    plain = [g for g in games if g["optimal"] and form_of(g) == form and not is_other(g)]
    hard = [g for g in plain if g["cost_words"] > g["compulsory_words"]]
    most = max(hard, key=lambda g: (g["vertices"], g["cost_words"] - g["compulsory_words"]))
    shape = f"{most['rows']} row{'s' * (most['rows'] > 1)} x {most['keys']} keys, d = {most['d']}"
    search = most["engines"][0]
    return (
        f"{shape}: {most['vertices']} vertices, {most['red']} red pebbles, {most['cost_words']} words"
        f" ({most['compulsory_words']} of them compulsory), {search['explored']:,} positions,"
        f" {search['seconds']:.1f} s of search"
    )


def _share_of_a_core(games: Sequence[Row]) -> str:
    """Seconds that searches computed before they met their limit, in the median."""
    return f"{median(g['search_cpu_seconds'] for g in games if not g['optimal'] and 'search_cpu_seconds' in g):.0f}"


def figure(games: Sequence[Row]) -> str:
    """Words against memory for the shape with most memories at which the optimum moves something twice."""
    solved = Solved(games)
    plain = [g for g in games if g["optimal"] and not is_other(g)]
    moving = Counter(shape_of(g) for g in plain if g["cost_words"] > g["compulsory_words"])
    shape = max(moving, key=lambda each: (moving[each], each))
    rows, keys, d = shape
    workload = Workload(queries=rows, keys=keys, d=d, dtype="fp32")
    memories = list(range(2, one_pass(rows, d, Dataflow.ATTENIO) + 3))
    facts = {red: g for (_, each, red), g in solved.games.items() if each == shape}
    lines = [
        Series(name, memories, [solved.cost(form, shape, red) for red in memories], colour, dashed=name == "partial")
        for name, form, colour in (("standard", STANDARD, "#0072b2"), ("partial", PARTIAL, "#d55e00"))
    ]
    for name, flow, colour in (("AttenIO", Dataflow.ATTENIO, "#009e73"), ("kept keys", Dataflow.KEPT_KEYS, "#cc79a7")):
        lines.append(Series(name, memories, [_counted(workload, red, flow) for red in memories], colour))
    floor = [max(facts[red]["absolute_bounds"].values()) if red in facts else None for red in memories]
    lines.append(Series("largest bound", memories, floor, "#444", dashed=True))
    title = f"{rows} rows x {keys} keys, d = {d}: optima, closed forms and bound"
    return LineChart(title=title, x_title="fast memory (words)", y_title="moved (words)").svg(lines)


def _counted(workload: Workload, fast_words: int, dataflow: Dataflow) -> int | None:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
    except DoesNotFit:
        return None


def answer(results: Row) -> str:
    """The text of answer.md."""
    games = results["games"]
    solved = Solved(games)
    proven = [game for game in games if game["optimal"]]
    moving = [game for game in proven if game["cost_words"] > game["compulsory_words"]]
    above = [g["dataflows"] for g in proven if g["dataflows"]]
    beaten = [min(g["dataflows"].values()) / g["cost_words"] for g in proven if g["dataflows"]]
    fits = [g["dataflows"]["attenio"] / g["cost_words"] for g in proven if "attenio" in g["dataflows"]]
    found = constants(solved)
    lowest = min((row for row in found if row["red"] >= 4 * row["d"] ** 2), key=lambda row: row["constant"])
    return _ANSWER.format(
        games=len(games),
        solved=len(proven),
        moving=len(moving),
        agree=sum(all(e["cost_words"] == e["proven_words"] for e in g["engines"]) for g in proven),
        tight=sum(max(g["absolute_bounds"].values()) == g["cost_words"] for g in proven),
        ordered=sum(g["order_search_words"] == g["cost_words"] for g in proven),
        share=_share_of_a_core(games),
        limit=f"{max(g['limit_seconds'] for g in games):g}",
        table="\n".join(whole_table(solved)),
        one_pass="\n".join(one_pass_table(solved)),
        constants="\n".join(constants_table(found)),
        lowest=f"{lowest['constant']:.1f}",
        lowest_at=f"{lowest['rows']} rows, d = {lowest['d']}, M = {lowest['red']}",
        verdict=verdict(solved),
        grown=grown(solved),
        **partial_one_pass(solved),
        counted=len(above),
        least=f"{min(beaten):.2f}",
        most=f"{max(beaten):.2f}",
        fits=len(fits),
        attenio_least=f"{min(fits):.2f}",
        attenio_most=f"{max(fits):.2f}",
        standard=largest(games, STANDARD),
        partial=largest(games, PARTIAL),
        others="\n".join(other_table(games)),
        rows_table="\n".join(row_table(results["row_games"])),
        **row_text(results["row_games"]),
        **against_each_other(solved, STANDARD, PARTIAL),
    )


_ANSWER = """# Is 4 the right constant in 4n²d²/M?

**What could be found.** An optimum below a dataflow's count shows room in the dataflow; an optimum equal to a
proven bound shows that the bound cannot be raised. At sizes that can be solved the compulsory words dominate
every bound, so the constant shows in two other places: in the least memory with which a number of rows is served
in one pass over the keys, and in what a further key costs at a fixed memory. If each row needs 2d words and little
more, n rows take about 2dn/M passes of 2nd words: 4n²d²/M.

**Solved** (`results.json`, made by `run.py`): {solved} of {games} games, {moving} of which move something twice.
Two games ran at a time on 2 cores; the search had at most {limit} s for each, CP-SAT a third of that at most. Other
programs had the cores too: of its {limit} s, a search that met the limit computed for {share} s in the median, so
an idle machine solves more. Both engines proved {agree} of them; where only one did, the other never contradicted
it. The order search for large graphs, which proves nothing, had found a schedule as cheap as the optimum in {ordered}.
Dataflows and bounds are those of the commit that `results.json` names.

**What it says about the 4.** No optimum contradicts 4n²d²/M or another proven bound. With many keys, serving rows in
one pass takes what keeping their Q and O takes, and little more. {grown}

*Words a row.* A schedule that keeps rows holds for each of them d words of Q, d of O and one of the softmax's sum,
and, while a key passes, either one score of every row and a word of the key or value, or the whole key and value and
one score: r(2d+1) + min(r, 2d) + 1 words for r rows and any number of keys, played and refereed for every shape here.
The optima of the standard game say whether fewer do:

{verdict}

{one_pass}

("keys: words" are optima, `a..b` where only an interval is known. Where both are settled, the partial game takes the
memory of the standard one in {same} of {both} shapes and at most {most_more} more in the others. A memory too
few for some keys is too few for more: leaving keys out of a schedule leaves a schedule. AttenIO's tiles also hold a
maximum, a rescaling factor and the score of every row: 2d+4 words a row, and d for the key. Kept keys, with rows
that take their turn, hold a maximum and a sum: 2d+2 words a row, 2d for the key, and two.)

*Words a key.* Differences between solved numbers of keys at a fixed memory, up to that of keeping rows, and the c for
which the last of them is c·rows·d²/M. Compulsory words, 2d a key, are in them. For many keys the theorem asks for c of
at least 4 where M is at least 4d². With the words of keeping rows the last difference is final, with fewer it may
still change.

{constants}

The least at M of at least 4d² is c = {lowest} ({lowest_at}). One pass has c = 2M/rd, and with the words of
keeping rows that is 4 + 2/d + 2(min(r, 2d) + 1)/rd: it falls to 4 as d and r grow, and at d = 1 and many rows to 6.
What separates these games from 4 is the row's sum and the few words in passing, both of lower order. So the optima
agree with the constant 4 and with the way AttenIO earns it; they are too small to show it to leading order by
themselves. The proof is in `docs/theory/output_epochs.md`.

**Optimum, closed form and bounds.** Words moved, by shape and memory of M words. "standard" has the unshifted softmax,
chains of sums and sliding; "partial" is the partial game (PRBP) with wide sums; "online" the standard game with
the online softmax; "no sliding" the first without sliding. `a..b` is proven and best known, nothing stands where the
game was beyond the engines or not tried, `-` where a dataflow does not fit. More memory than in the last line of
a shape changes nothing for the optima.

{table}

No proven bound is above an optimum; {tight} optima equal the largest bound. Of {pairs} shapes and memories at which
standard and partial are both solved and one of them moves something twice, the costs are equal in {equal}; the
partial game is cheaper in {cheaper} and dearer in {dearer}: its graph has vertices for the products, and it may add
in any order. In the {counted} solved games in which some dataflow fits, the best one moves {least} to {most} times the
optimum; in the {fits} in which AttenIO fits, it moves {attenio_least} to {attenio_most} times: buffers of whole
tiles are dear when memory is a handful of words. Below 1 are plans of the gradient alone: the graph of these games has
outputs and log-sum-exps among its inputs, and a ring of keys makes both again instead of reading them.

**Masks, other widths, the gradient.** The standard game under causal masks and windows, with values wider or narrower
than keys, and that of the gradient, with gradient-rows, five-products and the like among its bounds. Per memory M:

{others}

**Whole rows.** Most schedules of the planner (rocking passes, rings under windows, rows that come and go one by one,
slots for two passes) move whole rows. So {row_games} games were solved in which rows and keys come and go whole
(`attenio.pebbling.row_games`): a row has a maximum and a sum with it; backward, dQ, dK and dV come and go by
themselves and D is stored once. Forward, with heads that share no keys, dense or masked, a schedule of whole rows
beats the best plan in {alone_beaten} of {alone} games, and with dense heads that share theirs, which stack their rows
and keep keys over the turn, in {shared_beaten} of {shared}; plans move up to {forward_worst} times the optimum.
Backward that happens in {backward_beaten} of {backward_games} games, up to {backward_worst} times.
Where every row needs every key games win in {dense_beaten} of {dense}, up to {dense_worst} times, and under masks in
{masked_beaten} of {masked}.
Four things were learnt from games and are plans. While rows stay, a key finishes its gradient before the rows begin
theirs, or after they have ended (waiting rows). dQ stays while its row leaves and comes again (sums of rows, and of
keys). Of rows that have no such place dQ is there between tiles of keys alone, in the place of dK and dV, and travels
from one of these turns to another, or keys come again for it (turns of rows, and of keys). And under a mask a key is
done with the rows that it is the last to meet before its gradient begins, and with that before the rows begin that it
is the first to meet (a ring of rows). Where fewer rows fit than two keys share there are turns under masks too, with
other groups: the rows that need a tile of keys last, and their neighbours; where the first of them have met many tiles
before, their sums travel from turn to turn. What is left, in small memories: heads that share keys one after the other,
with gradients of keys that travel between them; rows in groups that end later than their first one; and keys whose
gradients stay in larger tiles than they do.
There games say less of large problems: rows that stay as soon as all that are left fit are found in no game this small,
gradients that give way to each other column by column are in no game of whole rows, and together these save up to 16 %
of the words under causal masks.
Plans that move less than a game make outputs again, or have values in groups of columns.

{rows_table}

![words against memory](figure.svg)

**The largest games solved** in {limit} s, of those in which something has to move twice:

- standard: {standard};
- partial: {partial}.
"""
