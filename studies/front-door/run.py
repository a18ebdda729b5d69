"""How quickly does someone new get an answer, and what do the site, the explorer and its server cost?

    python studies/front-door/run.py engineer    # a fresh clone, a new environment, the README's commands; also
    ...                          architect, theorist
    python studies/front-door/run.py site        # after make docs: every page in headless Chromium, with axe-core
    python studies/front-door/run.py picture     # seconds to the first picture of the landing page
    python studies/front-door/run.py explorer    # sliders, wrong addresses, axe-core
    python studies/front-door/run.py server      # foreign hosts and origins, malformed and silent connections

Each part is written into results.json beside this file; ``answer.py`` turns it into answer.md. ``make browser`` gets
what the site and the explorer need. Times are wall-clock times; what else the computer did is kept beside them.
"""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from attenio.explorer.serve import Explorer
from attenio.explorer.site import files
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
SITE = ROOT / "docs" / "_build" / "html"
AXE = ROOT / ".browser" / "axe-core" / "axe.min.js"
# The door of each reader in the README, and the first command that answers the question.
READERS = {
    "engineer": ("**You write models.**", "attention() runs"),
    "architect": ("**You build machines.**", "cycles and joules of every dataflow"),
    "theorist": ("**You prove things.**", "the bound with its constant, and its proof"),
}
WORDS_A_MINUTE = 200
# What stays while a slider moves, and the slider; every position is another answer.
SLIDERS = [
    ("", "n"),
    ("mask=causal", "n"),
    ("machine=h100&mask=causal", "n"),
    ("machine=mi300x&heads=8", "n"),
    ("machine=graviton4", "n"),
    ("model=llama-3-8b&machine=h200", "n"),
    ("mask=window:1024", "n"),
    ("direction=backward&mask=causal", "n"),
    ("n=32K", "d"),
    ("n=32K&mask=causal", "heads"),
    ("n=32K", "fast"),
    ("n=32K&mask=causal", "fast"),
]
# Sparse layouts are counted block by block, and the page takes them up to 16K keys.
LAYOUTS = [
    *(
        (f"mask=longformer:512:64{n}", slider)
        for n, slider in (("&n=8K", "heads"), ("&n=8K", "d"), ("&n=8K", "fast"), ("&n=16K", "d"), ("&n=16K", "fast"))
    ),
    *((f"mask={each}", "n") for each in ("longformer:512:64", "bigbird:192:128:3", "strided:512", "fixed:512:128")),
    ("mask=strided:512&n=16K", "fast"),
    ("mask=longformer:512:64&n=16K&direction=backward", "fast"),
]
# The longest position of the slider of n that is timed: what a page takes of a layout is shorter.
LONGEST, LONGEST_LAYOUT = 20.0, 14.0
MOVES = 10
WRONG = [
    "n=many", "n=-3", "n=0", "n=1e30", "d=99999999", "heads=7&kv_heads=2", "machine=h101", "machine=/etc/passwd",
    "machine=host", "mask=block-sparse:/etc/passwd:64", "mask=sideways", "colour=blue", "hedas=4",
    "direction=training", "fast=1", "fast=-1", "model=llama-3-8b&heads=7", "mask=longformer:512:64&n=128K",
    "dtype=fp7", "dataflow=best", "n=" + "1" * 3000, "%ff%fe=1", "model=%00", "mask=prefix:8K&n=4K",
]  # fmt: skip


def reader(name: str) -> dict[str, Any]:
    """Seconds of every command that a reader types, in a fresh clone and a new environment."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    door, answered = READERS[name]
    commands = _commands(text, door)
    with tempfile.TemporaryDirectory(prefix="front-door-") as folder:
        clone = Path(folder) / "attenio"
        begin = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        steps = [("git clone", time.perf_counter() - begin)]
        steps += [(command, _typed(command, clone)) for command in commands]
    return {
        "answer": answered,
        "words_to_read": len(text[: text.index(READERS["engineer"][0])].split()) + len(_door(text, door).split()),
        "steps": [{"command": command, "seconds": seconds} for command, seconds in steps],
    }


def _door(text: str, door: str) -> str:
    """A door up to the end of its commands."""
    start = text.index(door)
    return text[start : text.index("```", text.index("```", start) + 3)]


def _commands(text: str, door: str) -> list[str]:
    """What is typed up to the first answer: what installs, and the first command of the door."""
    block = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", _door(text, door), re.M)
    installs = "pip install" in block[0]
    return ["make install", *block[: 2 if installs else 1]]


def _typed(command: str, clone: Path) -> float:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    begin = time.perf_counter()
    done = subprocess.run(["bash", "-c", command], cwd=clone, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-500:]}"
    return time.perf_counter() - begin


def _in_chromium(measure: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        found = measure(browser)
        browser.close()
    return found


def first_picture(browser: Any) -> dict[str, Any]:
    """Seconds until the landing page has a picture, in five windows that have seen nothing before."""
    seconds = []
    for _ in range(5):
        view = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        begin = time.perf_counter()
        view.goto((SITE / "index.html").as_uri(), wait_until="commit")
        view.wait_for_function("[...document.images].some(image => image.complete && image.naturalWidth)")
        seconds.append(time.perf_counter() - begin)
    return {"seconds": sorted(seconds), "page_bytes": (SITE / "index.html").stat().st_size}


def site(browser: Any) -> dict[str, Any]:
    """Pages, bytes, what axe-core finds on every page, light and dark, and requests that leave the computer."""
    pages = sorted(page for page in SITE.rglob("*.html") if "_static" not in page.parts)
    violations, asked, axe = list[str](), list[str](), AXE.read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        view = browser.new_context(color_scheme=scheme).new_page()
        view.on("request", lambda request: asked.append(request.url))
        for page in pages:
            view.goto(page.as_uri())
            view.evaluate(axe)
            found = view.evaluate("axe.run().then(found => found.violations.map(each => each.id))")
            violations += [f"{page.relative_to(SITE)}: {each}" for each in found]
    return {
        "pages": len(pages),
        "bytes": sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file()),
        "axe_violations": violations,
        "requests": len(asked),
        "requests_outside": [url for url in asked if not url.startswith(("file:", "data:"))],
    }


def explorer(browser: Any) -> dict[str, Any]:
    """Bytes, the first answer, milliseconds from a moved slider to the painted page, and wrong addresses."""
    every = files()
    with Explorer(every) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(300_000)
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        begin = time.perf_counter()
        page.goto(server.url)
        page.wait_for_selector("body[data-answered]", state="attached")
        first = time.perf_counter() - begin
        page.wait_for_function("document.getElementById('game-step').textContent")
        complete = time.perf_counter() - begin
        found = {
            "bytes": sum(map(len, every.values())),
            "first_answer_seconds": first,
            "every_picture_seconds": complete,
            "sliders": [_moved(page, state, slider) for state, slider in SLIDERS],
            "layouts": [_moved(page, state, slider) for state, slider in LAYOUTS],
            "wrong_addresses": [{"address": each[:60], "told": _wrong(page, each)} for each in WRONG],
        }
        _opened(page, "")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found["axe_violations"] = page.evaluate("axe.run().then(found => found.violations.map(each => each.id))")
        found["errors"] = complaints
        server.shutdown()
    return found


def _opened(page: Any, address: str) -> None:
    page.evaluate(
        "query => { history.pushState(null, '', '/?' + query); dispatchEvent(new Event('popstate')) }", address
    )
    page.wait_for_function("document.body.dataset.answered === location.search.slice(1)")


def _moved(page: Any, state: str, slider: str) -> dict[str, Any]:
    _opened(page, state)
    field = f"#{slider}-slider"
    low, high, step = (float(page.get_attribute(field, name)) for name in ("min", "max", "step"))
    longest = LONGEST_LAYOUT if (state, slider) in LAYOUTS else LONGEST
    low, high = {"n": (9.0, longest), "fast": (12.0, 24.0)}.get(slider, (low, high))
    planned, drawn = [], []
    for move in range(MOVES):
        value = low + round((high - low) * move / (MOVES - 1) / step) * step
        page.wait_for_timeout(250)  # what follows a plan is not what is timed
        page.eval_on_selector(
            field, "(e, value) => { e.value = value; e.dispatchEvent(new Event('input', {bubbles: true})) }", str(value)
        )
        page.wait_for_function("document.body.dataset.answered === location.search.slice(1)")
        page.wait_for_timeout(50)
        told = page.inner_text("#status")
        times = re.fullmatch(r"Planned in (\d+) ms drawn after (\d+) ms\.", told.replace(",", ""))
        if times is None:  # a position that is refused, such as keys that do not divide heads
            continue
        planned.append(int(times[1]))
        drawn.append(int(times[2]))
    return {"state": state, "slider": slider, "planned_ms": planned, "drawn_ms": drawn}


def _wrong(page: Any, address: str) -> str:
    _opened(page, "")
    page.evaluate(
        "query => { history.pushState(null, '', '/?' + query); dispatchEvent(new Event('popstate')) }", address
    )
    page.wait_for_selector("#problem:not([hidden])", timeout=20_000)
    return str(page.inner_text("#problem"))


def server() -> dict[str, Any]:
    """What the server refuses, and whether it still answers after a thousand malformed requests."""
    with Explorer({"index.html": b"<p>here</p>"}) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        port = served.server_address[1]

        def status(**headers: str) -> int:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/", headers={name.title(): value for name, value in headers.items()})
            return connection.getresponse().status

        hosts = ["example.com", "attacker.test:80", "127.0.0.1", "localhost:1", f"127.0.0.1.example.com:{port}"]
        origins = ["https://example.com", "null", f"http://127.0.0.1.example.com:{port}"]
        draw, begin = random.Random(0), time.perf_counter()
        for _ in range(1000):
            noise = draw.randbytes(draw.randrange(1, 400))
            start = draw.choice([b"", b"GET / HTTP/1.1\r\n", b"GET /" + noise[:20] + b" HTTP/9.9\r\n\r\n",
                                 b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"])  # fmt: skip
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(start + noise)
        seconds = time.perf_counter() - begin
        found = {
            "address": served.server_address[0],
            "foreign_hosts": {host: status(host=host) for host in hosts},
            "foreign_origins": {origin: status(origin=origin) for origin in origins},
            "malformed_requests": 1000,
            "malformed_seconds": seconds,
            "status_afterwards": status(),
        }
        served.shutdown()
    return found


def main(part: str) -> None:
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    loads = kept.get("loads", {}) | {part: round(os.getloadavg()[0], 1)}
    match part:
        case _ if part in READERS:
            found: dict[str, Any] = {"readers": kept.get("readers", {}) | {part: reader(part)}}
        case "site":
            found = {"site": _in_chromium(site)}
        case "picture":
            found = {"first_picture": _in_chromium(first_picture)}
        case "explorer":
            found = {"explorer": _in_chromium(explorer)}
        case "server":
            found = {"server": server()}
        case _:
            raise SystemExit(f"{part} is no part; there are {', '.join(READERS)}, site, picture, explorer and server")
    made = vars(provenance())
    commits = kept.get("commits", {}) | {part: made["commit"]}
    kept |= {"provenance": made, "commits": commits, "loads": loads, "cores": os.cpu_count(), **found}
    write_atomically(RESULTS, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
