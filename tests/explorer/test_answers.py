"""Laws of what the explorer's page is told: the command line's numbers, and a line for every mistake."""

import json
import shlex
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_text import CHARACTERS
from attenio import Plan
from attenio.cli import main
from attenio.explorer import respond
from attenio.explorer.answers import VIEWS

ADDRESSES = [
    "",
    "n=4K&d=64&mask=causal&machine=h100",
    "n=3000&d=48&heads=8&kv_heads=2&fast=64KB&mask=window:512",
    "model=llama-3-8b&n=8K&decode=1&machine=h200",
    "n=2K&d=64&direction=backward&dtype=bf16",
    "n=1K&d=32&dataflow=flash-attention-2&batch=3",
]


def told(view: str, address: str) -> Any:
    return json.loads(respond(json.dumps({"view": view, "address": address})))


@pytest.mark.parametrize("address", ADDRESSES)
def test_numbers_are_those_of_the_command_that_the_page_shows(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = told("plan", address)
    assert main([*shlex.split(page["command"])[1:], "--json"]) == 0
    command = json.loads(capsys.readouterr().out)
    command.pop("notes")
    assert told("whole", address)["json"] == command
    assert (page["gap"], page["plan"]["words"]) == (command["gap"], command["plan"]["moved_words"])


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_python_lines_give_the_same_plan(address: str) -> None:
    page, names = told("plan", address), dict[str, Any]()
    exec(page["python"].replace("print(plan)", ""), names)
    assert isinstance(names["plan"], Plan)
    assert (names["plan"].moved_words, names["plan"].gap) == (page["plan"]["words"], page["gap"])


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_view_has_an_answer(address: str) -> None:
    for view in VIEWS:
        assert "error" not in told(view, address), view
    assert told("pebbles", address)["frames"][-1]["cost_words"] > 0


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("n=many", "n is 'many'; write a whole number"),
        ("n=-3", "n is -3; it must be at least 1"),
        ("n=1e30", "use a smaller number"),
        ("machine=h101", "did you mean h100?"),
        ("machine=/etc/passwd", "a page knows machines by name only"),
        ("machine=host", "a page knows machines by name only"),
        ("mask=block-sparse:/etc/passwd:64", "a page has no files"),
        ("colour=blue", "unknown choice 'colour'"),
        ("hedas=4", "did you mean heads?"),
        ("direction=training", "choose the direction forward or backward"),
        ("fast=1", "no dataflow fits"),
        ("model=llama-3-8b&heads=7", "has its own heads"),
        ("mask=longformer:512:64&n=128K", "layouts are explored up to 16,384 keys"),
        ("n=" + "1" * 3000, "characters; use at most 2,000"),
    ],
)
def test_a_wrong_address_is_answered_in_a_line(address: str, line: str) -> None:
    for view in ("plan", "curve", "frames", "timeline"):
        problem = told(view, address).get("error", "")
        assert line in problem or view != "plan"
        assert "\n" not in problem and "Traceback" not in problem


def test_words_against_fast_memory_are_drawn_for_layouts_too() -> None:
    assert told("curve", "mask=strided:256&n=1K")["svg"].startswith("<svg")
    assert "forward" in told("curve", "mask=strided:256&n=1K&direction=backward")["note"]


@settings(max_examples=12)
@given(
    st.dictionaries(
        st.sampled_from(["n", "d", "mask", "machine", "fast", "heads", "dataflow", "x"]),
        st.text(CHARACTERS, max_size=8),
    )
)
def test_no_address_is_answered_with_anything_but_an_answer_or_a_line(choices: dict[str, str]) -> None:
    page = told("plan", urlencode(choices))
    assert ("error" in page) != ("plan" in page)
    assert "\n" not in page.get("error", "")


@pytest.mark.parametrize(
    "request_text", ["", "{", "[]", "3", "null", '{"view": "nothing"}', '{"address": ""}', '"plan"']
)
def test_a_request_that_is_none_is_answered(request_text: str) -> None:
    assert json.loads(respond(request_text))["error"]


def test_no_mask_is_waited_for_longer_than_others_once_the_page_has_prepared_itself() -> None:
    script = """
import json, sys
from attenio.explorer import prepare, respond
from attenio.masks.layouts import EXAMPLES
ask = lambda address: json.loads(respond(json.dumps({"view": "plan", "address": address})))
ask("")
prepare()
before = set(sys.modules)
for mask in ("causal", "window:64", "prefix:64", *EXAMPLES.values()):
    assert "error" not in ask(f"queries=1K&keys=4K&mask={mask}"), mask
print(sorted(set(sys.modules) - before))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")
