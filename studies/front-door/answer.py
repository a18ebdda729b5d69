"""Writes answer.md from results.json."""

import json
import statistics
from pathlib import Path
from typing import Any

WORDS_A_MINUTE = 200
TEXT = """# How quickly does someone new get an answer, and what do the site and the explorer cost?

**Prediction** (before the run). Once attenio is installed, the first command of each reader's door in the
README answers within seconds, so that reading takes longest: a minute each. The explorer plans within 100 ms of
a moved slider on two cores and answers first within ten seconds. Nothing on the site asks for anything outside,
and axe-core finds nothing.

**Measured** (`results.json`, made by `run.py`): attenio {version}, {date}, {cores} cores, {beside}; commits: {commits}.

## A fresh clone

What a reader types, from an empty folder to the first answer, with an environment made anew; packages came from a
mirror nearby. Reading is the README's introduction and the reader's own door, at {pace} words a minute. A script
typed this: no person was timed.

| reader | answer | read | install | command | in all | once installed |
|---|---|---:|---:|---:|---:|---:|
{readers}

{commands}

## The site

{pages} pages, {megabytes:.1f} MB, opened from disk. The landing page ({page_kilobytes:.0f} KB) has its picture
{picture:.2f} s after it is asked for (median of {windows} new windows). Of {requests:,} requests {outside} left
the computer; axe-core found {violations} violations on all pages, in light and in dark. That no page writes an error to
the console is a test (`make browser`).

## The explorer

{explorer_megabytes:.1f} MB as files. First answer after {first:.1f} s, every picture after {complete:.1f} s.
From a moved slider, in milliseconds, median and most of {moves} positions: what the planner takes in the
browser, and until the page is painted with bound, plan, gap, tiles and every dataflow:

| what stays | slider | planner | at most | painted | at most |
|---|---|---:|---:|---:|---:|
{sliders}

{verdict} Sparse layouts are counted block by block, and the page takes them up to 16,384 keys:

| what stays | slider | planner | at most | painted | at most |
|---|---|---:|---:|---:|---:|
{layouts}

{layouts_verdict} Of {wrong} wrong addresses and values out of range, {answered} were answered by a line
in the page; {errors} errors in the page's scripts; axe-core found {explorer_violations} violations.

## The server of `attenio explore`

It listens on {address}, gave 403 to {hosts} foreign hosts and {origins} foreign origins, and after
{malformed:,} malformed requests in {malformed_seconds:.1f} s answered with {status}. It serves fixed files from
memory, at most 32 connections at once, each for ten seconds at most; nothing is computed for a request.
"""


def answer(results: dict[str, Any]) -> str:
    """The text of the answer."""
    site, explorer, server = results["site"], results["explorer"], results["server"]
    picture, made = results["first_picture"], results["provenance"]
    told = [each["told"] for each in explorer["wrong_addresses"]]
    return TEXT.format(
        version=made["version"], commits=_commits(results["commits"]), date=made["date"], cores=results["cores"],
        pace=WORDS_A_MINUTE, beside=_beside(results),
        readers="\n".join(_reader(name, each) for name, each in sorted(results["readers"].items())),
        commands=_commands(results["readers"]),
        pages=site["pages"], megabytes=site["bytes"] / 1e6, page_kilobytes=picture["page_bytes"] / 1e3,
        picture=statistics.median(picture["seconds"]), windows=len(picture["seconds"]), requests=site["requests"],
        outside=_count(site["requests_outside"], none="none"),
        violations=_count(site["axe_violations"]), explorer_megabytes=explorer["bytes"] / 1e6,
        first=explorer["first_answer_seconds"], complete=explorer["every_picture_seconds"],
        moves=max(len(each["planned_ms"]) for each in explorer["sliders"]),
        sliders="\n".join(_slider(each) for each in explorer["sliders"]),
        verdict=_verdict(explorer["sliders"]), layouts="\n".join(_slider(each) for each in explorer["layouts"]),
        layouts_verdict=_verdict(explorer["layouts"]),
        wrong=len(told), answered=sum(bool(each) and "\n" not in each for each in told),
        errors=_count(explorer["errors"]), explorer_violations=_count(explorer["axe_violations"]),
        address=server["address"], hosts=_refused(server["foreign_hosts"]), origins=_refused(server["foreign_origins"]),
        malformed=server["malformed_requests"], malformed_seconds=server["malformed_seconds"],
        status=server["status_afterwards"],
    )  # fmt: skip


def _count(found: list[str], none: str = "no") -> str:
    return str(len(found)) if found else none


def _commits(commits: dict[str, str]) -> str:
    parts = {commit: [part for part, other in commits.items() if other == commit] for commit in commits.values()}
    return "; ".join(f"{', '.join(names)} at {commit}" for commit, names in parts.items())


def _beside(results: dict[str, Any]) -> str:
    """What else the computer did; where nothing is noted, it did nothing."""
    busy = {part: load for part, load in results.get("loads", {}).items() if load > results["cores"] / 2}
    if not busy:
        return "nothing else running\nwhile something was timed"
    told = ", ".join(f"{load} of {part}" for part, load in sorted(busy.items()))
    return f"busy with other work\nbefore some parts, so that their times are too long (load {told})"


def _refused(statuses: dict[str, int]) -> str:
    refused = sum(status == 403 for status in statuses.values())
    return f"{refused} of {len(statuses)}"


def _reader(name: str, reader: dict[str, Any]) -> str:
    seconds = [step["seconds"] for step in reader["steps"]]
    reading, last = reader["words_to_read"] / WORDS_A_MINUTE * 60, seconds[-1]
    cells = [reading, sum(seconds[:-1]), last, reading + sum(seconds)]
    minutes = [f"{cell / 60:.1f} min" if cell >= 60 else f"{cell:.0f} s" for cell in [*cells, reading + last]]
    return f"| {name} | {reader['answer']} | {' | '.join(minutes)} |"


def _commands(readers: dict[str, Any]) -> str:
    lines = []
    for name, reader in readers.items():
        typed = "; ".join(f"`{step['command']}` {step['seconds']:.1f} s" for step in reader["steps"])
        lines.append(f"- {name}: {typed}")
    return "\n".join(lines)


def _slider(slider: dict[str, Any]) -> str:
    planned, drawn = slider["planned_ms"], slider["drawn_ms"]
    times = [statistics.median(planned), max(planned), statistics.median(drawn), max(drawn)]
    return (
        f"| {slider['state'] or 'the default'} | {slider['slider']} | " + " | ".join(f"{t:.0f}" for t in times) + " |"
    )


def _verdict(sliders: list[dict[str, Any]]) -> str:
    planned = [each for slider in sliders for each in slider["planned_ms"]]
    drawn = [each for slider in sliders for each in slider["drawn_ms"]]
    quick, shown = sum(each < 100 for each in planned), sum(each < 100 for each in drawn)
    return (
        f"Of {len(planned)} moves {quick} were planned, and {shown} painted, in less than 100 ms; the median is"
        f" {statistics.median(planned):.0f} and {statistics.median(drawn):.0f} ms."
    )


if __name__ == "__main__":
    folder = Path(__file__).parent
    text = answer(json.loads((folder / "results.json").read_text(encoding="utf-8")))
    (folder / "answer.md").write_text(text, encoding="utf-8")
