"""Pages in a real browser: Debian's Chromium, driven by playwright. ``make browser`` gets both, and runs this."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_build" / "html"
PACKAGES = ROOT / ".browser"  # what make browser fetches from npm
NARROW = {"width": 390, "height": 844}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-page", action="store_true", help="Look at every page, not only at one of each kind.")


@pytest.fixture(scope="session")
def every_page(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--every-page", default=False))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for all tests; skipped, with the reason, where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: make browser installs one")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: make browser installs it")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def axe() -> str:
    """The text of axe-core."""
    file = PACKAGES / "axe-core" / "axe.min.js"
    if not file.is_file():
        pytest.skip("no axe-core here: make browser fetches it")
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def site() -> Path:
    """The documentation as it was built."""
    if not (SITE / "index.html").is_file():
        pytest.skip("the documentation is not built: make docs builds it")
    return SITE


class Watched:
    """A page that remembers what it complained about and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page, self.complaints, self.requests = page, list[str](), list[str]()
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    @property
    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def violations(self, axe: str) -> list[str]:
        """What axe-core finds wrong, by rule and place."""
        self.page.evaluate(axe)
        found = self.page.evaluate("axe.run().then(found => found.violations)")
        return [f"{each['id']}: {node['target']}" for each in found for node in each["nodes"]]


@pytest.fixture
def watched(chromium: Any) -> Iterator[Any]:
    """Makes pages, narrow or wide, light or dark."""
    contexts = []

    def make(*, narrow: bool = False, dark: bool = False, **more: Any) -> Watched:
        size = NARROW if narrow else {"width": 1280, "height": 900}
        context = chromium.new_context(viewport=size, color_scheme="dark" if dark else "light", **more)
        contexts.append(context)
        return Watched(context.new_page())

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def serve() -> Iterator[Any]:
    """Serves a folder on loopback, as any web host would."""
    servers = []

    def start(folder: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass
