"""The explorer in a real browser: every control, wrong values, a slow machine, two tabs, a keyboard, axe."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attenio.explorer import respond
from attenio.explorer.packages import kept_folder
from attenio.explorer.serve import Explorer
from attenio.explorer.site import build, files

HERE = Path(__file__).parent
SLOW = 180_000


@pytest.fixture(scope="module")
def explorer() -> Iterator[str]:
    if not (kept_folder() / "numpy.zip").is_file():
        pytest.skip("Python for the browser is not here: make browser fetches it")
    with Explorer(files()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


def opened(watched: Any, url: str, **how: Any) -> Any:
    view = watched(**how)
    view.page.set_default_timeout(SLOW)
    view.page.goto(url)
    view.page.wait_for_selector("body[data-answered]", state="attached")
    return view


def answered(page: Any) -> None:
    page.wait_for_function("document.body.dataset.answered === location.search.slice(1)")


def natively(address: str, view: str = "plan") -> Any:
    return json.loads(respond(json.dumps({"view": view, "address": address})))


def test_every_control_changes_the_address_and_the_answer_is_the_native_one(
    explorer: str, watched: Any, axe: str, tmp_path: Path
) -> None:
    view = opened(watched, explorer)
    page = view.page
    page.wait_for_function("document.getElementById('game-step').textContent")
    assert f"{natively('')['plan']['words']:,} words" in page.inner_text("#numbers")
    for name, value in (
        ("n", "8K"),
        ("d", "128"),
        ("heads", "8"),
        ("kv_heads", "2"),
        ("batch", "3"),
        ("mask", "causal"),
    ):
        page.fill(f"[name={name}]", value)
        answered(page)
        assert f"{name}={value}" in page.url
    chosen = [("dtype", "bf16"), ("machine", "h100"), ("dataflow", "flash-attention-2"), ("direction", "backward")]
    for name, value in [*chosen, ("dataflow", ""), ("direction", ""), ("machine", "attenio-512k")]:
        page.select_option(f"[name={name}]", value)
        answered(page)
    page.check("[name=decode]")
    answered(page)
    page.uncheck("[name=decode]")
    for name in ("n", "d", "heads", "fast"):
        before = page.url
        page.focus(f"#{name}-slider")
        for _ in range(2):  # nine heads do not share two of keys, which the page says; ten do
            page.keyboard.press("ArrowRight")
            answered(page)
        assert page.url != before and page.get_attribute(f"#{name}-slider", "aria-valuetext") in page.url
    found = natively(page.url.partition("?")[2])
    assert f"{found['plan']['words']:,} words" in page.inner_text("#numbers")
    assert page.inner_text("#python").strip() == found["python"]
    assert len(page.query_selector_all("#flows tbody tr")) == len(found["dataflows"])
    assert page.input_value("[name=machine]") == "" and "machine=" not in page.url
    page.select_option("[name=machine]", "h100")  # instead of the fast memory
    page.fill("[name=batch]", "")
    page.select_option("[name=model]", "llama-3-8b")  # has its own heads, which cannot be chosen then
    answered(page)
    assert "heads=32/8 KV" in page.inner_text("#title") and page.input_value("[name=fast]") == ""
    assert page.is_disabled("[name=heads]") and page.is_disabled("#d-slider")
    with page.expect_download() as saved:
        page.click("#save-json")
    assert json.loads(Path(saved.value.path()).read_text()) == natively(page.url.partition("?")[2], "whole")["json"]
    for picture in ("curve", "tiles", "roofline", "timeline"):
        if picture == "timeline":
            page.select_option("[name=machine]", "attenio-512k")
        page.wait_for_selector(f"#{picture} svg")
        with page.expect_download() as saved:
            page.click(f"[data-svg={picture}]")
        assert Path(saved.value.path()).read_text().startswith("<svg")
    for film in ("film", "game"):
        before = page.inner_text(f"#{film}-step")
        page.focus(f"#{film}-buttons button:nth-child(4)")
        page.keyboard.press("Enter")
        assert page.inner_text(f"#{film}-step") != before
    assert view.complaints == []
    assert [url for url in view.requests if not url.startswith((explorer, "data:", "blob:"))] == []
    assert view.violations(axe) == []


def test_wrong_values_are_answered_in_the_page_and_an_address_opens_where_it_was(
    explorer: str, watched: Any, every_page: bool
) -> None:
    view = opened(watched, f"{explorer}?n=many&machine=h100", narrow=True, dark=True)
    page = view.page
    assert "n is 'many'; write a whole number" in page.inner_text("#problem")
    assert page.is_hidden("#answer") and page.input_value("[name=machine]") == "h100"
    page.fill("[name=n]", "2K")
    answered(page)
    assert page.is_hidden("#problem") and "n=2,048" in page.inner_text("#title")
    page.fill("[name=d]", "99999999")
    page.wait_for_selector("#problem:not([hidden])")
    assert "d is 99,999,999" in page.inner_text("#problem")
    if every_page:
        page.goto(f"{explorer}?colour=blue&machine=nothing")
        page.wait_for_selector("#problem:not([hidden])")
        assert "unknown choice 'colour'" in page.inner_text("#problem")
    assert view.overflow <= 0 and view.complaints == []


def test_any_web_host_serves_the_built_folder_at_any_place(
    explorer: str, serve: Any, watched: Any, tmp_path: Path, every_page: bool
) -> None:
    if not every_page:
        pytest.skip("make browser serves the built folder")
    build(tmp_path / "some" / "place")
    host = serve(tmp_path)
    view = opened(watched, f"{host}/some/place/?n=2K&mask=causal")
    assert f"{natively('n=2K&mask=causal')['plan']['words']:,} words" in view.page.inner_text("#numbers")
    view.page.fill("[name=n]", "3K")
    answered(view.page)
    assert view.page.url == f"{host}/some/place/?n=3K&mask=causal" and view.complaints == []
    assert [url for url in view.requests if not url.startswith((host, "data:", "blob:"))] == []


def test_a_slow_machine_and_two_tabs_get_their_own_answers(explorer: str, watched: Any, every_page: bool) -> None:
    if not every_page:
        pytest.skip("make browser opens two tabs on a slow machine")
    one, other = watched(), watched()
    slowed = one.page.context.new_cdp_session(one.page)
    slowed.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    for view, n in ((one, "1K"), (other, "2K")):
        view.page.set_default_timeout(2 * SLOW)
        view.page.goto(f"{explorer}?n={n}")
    for view, n in ((one, "1,024"), (other, "2,048")):
        view.page.wait_for_selector("body[data-answered]", state="attached")
        assert f"n={n}" in view.page.inner_text("#title") and view.complaints == []
    for size in ("3K", "4K", "5K"):
        one.page.fill("[name=n]", size)  # without waiting: only the last one counts
    answered(one.page)
    assert "n=5,120" in one.page.inner_text("#title")


@pytest.fixture(scope="module")
def in_wasm(tmp_path_factory: pytest.TempPathFactory, every_page: bool) -> Any:
    """Runs a file of this folder in Pyodide; what it prints."""
    node = shutil.which("node")
    if node is None or not (kept_folder() / "numpy.zip").is_file():
        pytest.skip("Node.js or Python for the browser is not here: make browser says how")
    if not every_page:
        pytest.skip("make browser runs doctests and plans in wasm")
    site = tmp_path_factory.mktemp("wasm") / "site"
    build(site)

    def run(file: str) -> str:
        command = [node, str(HERE / "wasm.mjs"), str(site), str(HERE / file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    return run


def test_doctests_hold_in_wasm(in_wasm: Any) -> None:
    assert "examples, 0 failed" in in_wasm("doctests_in_wasm.py")


def test_plans_in_wasm_are_the_native_ones(in_wasm: Any) -> None:
    natively = subprocess.run([sys.executable, str(HERE / "plans_in_wasm.py")], capture_output=True, text=True)
    assert natively.stdout.count('"plan"') > 30 and '"error"' not in natively.stdout
    for ours, there in zip(natively.stdout.splitlines(), in_wasm("plans_in_wasm.py").splitlines(), strict=True):
        assert there == ours
