"""Laws of what is released; installing it in clean environments is ``make release``."""

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import attenio

from .release import ROOT, already_passed, build, digest


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


def test_wheel_and_sdist_have_every_file_of_the_package(released: tuple[Path, Path]) -> None:
    wheel, sdist = released
    source = ROOT / "src" / "attenio"
    wanted = {
        f"attenio/{file.relative_to(source).as_posix()}"
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".nbi", ".nbc", ".pyc")
    }
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        names = {name.partition("/src/")[2] for name in archive.getnames()}
    assert wanted <= names


def test_wheel_citation_command_line_and_package_agree_on_the_version(
    released: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from attenio.cli import main

    wheel, sdist = released
    archive = zipfile.ZipFile(wheel)
    (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    assert main(["--version"]) == 0
    said = capsys.readouterr().out.split()[-1]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    assert {metadata["Version"], said, cited, wheel.name.split("-")[1]} == {attenio.__version__}
    assert sdist.name == f"attenio-{attenio.__version__}.tar.gz"
    assert {"report", "pebble", "torch", "pandas"} <= set(metadata.get_all("Provides-Extra") or ())


def test_the_changelog_has_a_section_of_the_version_that_says_what_it_is_for() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.partition(f"## [{attenio.__version__}]")[2]
    assert section, f"CHANGELOG.md has no section of {attenio.__version__}"
    assert len(section.split("\n##")[0].split()) > 60


def test_what_passed_is_not_tried_again_only_while_nothing_changes(tmp_path: Path) -> None:
    notes, of = tmp_path / "passed.json", digest()
    assert of == digest() and already_passed(notes, of) == {}
    notes.write_text(f'{{"of": "{of}", "seconds": {{"the wheel": 3.5}}}}', encoding="utf-8")
    assert already_passed(notes, of) == {"the wheel": 3.5}
    assert already_passed(notes, "other files") == {}
    for broken in ("", "[]", "{}", '{"of": 1'):
        notes.write_text(broken, encoding="utf-8")
        assert already_passed(notes, of) == {}
