"""The pages for users tell the truth: snippets run in their order, links lead somewhere.

A block ``sh`` has command lines of npusim, one a line, which exit with 0 or with what stands behind
``#``, or write into a file behind ``>``; a block ``text`` after it is what they print (numbers may
differ, ``...`` is what is left out). A block with a ``title`` is a file that the commands after it
read. ``bash`` is typed by users and not run here. Pages run in a folder that has what a clone has.
"""

from __future__ import annotations

import re
import shlex
from hashlib import sha256
from pathlib import Path

import pytest
from reference_pages import STUBS, stub

import npusim as package
from support.commands import npusim
from support.pages import assert_prints
from support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.zh.md"])
# Those for who works on npusim show parts of its files, which are no programs; what a translation
# shows is what its English page shows.
TRANSLATED = [page for page in PAGES if DOCS / "zh" in page.parents]
RUN = [page for page in PAGES if page.parent.name != "contributing" and page not in TRANSLATED]
LINKED = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "examples").rglob("*.md")]

MADE = {f"reference/{name}.md" for name in ("cli", "ascendc", "yaml", "chips")}  # with the site

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|``.+?``|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:)([^()\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_there_are_pages_on_kernels() -> None:
    pages = {page.name for page in PAGES if page.parent == DOCS / "kernels"}
    assert pages >= {"README.md", "reduction.md", "matmul.md", "mixed.md", "atomics.md"}


def test_the_reference_has_every_public_name() -> None:
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: npusim\.(\w+)$", text, re.MULTILINE)) >= set(package.__all__) - {
        "__version__"
    }


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_translation_is_in_step_with_its_page(page: Path) -> None:
    """If this fails: bring the translation in step, then its source_sha256 (first 16 digits)."""
    text = page.read_text(encoding="utf-8")
    about = dict(re.findall(r"^(\w+): (.+)$", text.split("---\n")[1], re.MULTILINE))
    english = (DOCS / about["translation_of"]).read_text(encoding="utf-8")
    assert page == DOCS / "zh" / about["translation_of"]
    assert _BLOCK.findall(text) == _BLOCK.findall(english)
    assert about["source_sha256"] == sha256(english.encode()).hexdigest()[:16]
    headings = [re.findall("^#+ ", each, re.MULTILINE) for each in (text, english)]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("folder", ["tutorials", "howto"])
def test_every_page_of_a_user_speaks_chinese(folder: str) -> None:
    english = {page.name for page in (DOCS / folder).glob("*.md")}
    assert {page.name for page in (DOCS / "zh" / folder).glob("*.md")} == english


def test_a_page_for_each_question() -> None:
    tutorials = {page.stem for page in PAGES if page.parent == DOCS / "tutorials"}
    assert tutorials == {"operator", "model", "llm", "kernel", "plan"}


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.name == "triton.md":
        pytest.importorskip("triton.backends.ascend")
        pytest.importorskip("torch")
    for each in ("reports", "examples", "README.md"):
        (tmp_path / each).symlink_to(ROOT / each)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "docs"}
    printed = ""
    for found in _BLOCK.finditer(text):
        language, title, body = found.groups()
        if title:
            Path(title).write_text(body, encoding="utf-8")
        elif language == "python":
            if "import torch" in body:  # what comes before needs none
                pytest.importorskip("torch")
            lines = text.count("\n", 0, found.start(3))
            exec(compile("\n" * lines + body, str(page), "exec"), names)  # noqa: S102 - the test
            printed = capsys.readouterr().out
        elif language == "sh":
            printed = "".join(command(capsys, line) for line in body.splitlines())
        elif language == "text":
            assert_prints(printed, body)
        else:
            assert language in {"bash", "yaml", "cpp", "cmake"}


def command(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """Run one line of a page; what it prints."""
    typed, _, code = line.partition(" # exits with ")
    program, *words = shlex.split(typed, comments=True)
    assert program == "npusim", line
    *words, file = words if words[-2:-1] == [">"] else (*words, "")
    said = npusim(capsys, "", *(words[:-1] if file else words))
    assert said.code == int(code or 0), said.err
    if not file:
        return said.out + said.err
    Path(file).write_text(said.out, encoding="utf-8")
    return said.err


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _CODE.sub("code", page.read_text(encoding="utf-8"))
    for target in [*_LINK.findall(text), *re.findall(r'<img src="(.+?)"', text)]:
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


def test_pages_that_are_made_have_something_in_their_place() -> None:
    """So that no link is dead on a Git host, and each place says how the page is made."""
    for name in STUBS:
        file = DOCS / "reference" / f"{name}.md"
        assert file.read_text(encoding="utf-8") == stub(name), "write it anew: reference_pages.stub"
    assert {f"reference/{name}.md" for name in STUBS} == MADE


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as mkdocs and code hosts make them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {re.sub(r"\s", "-", heading.strip()) for heading in plain}
