"""The pages for users tell the truth: every snippet of Python in docs/ runs, in its order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_there_are_pages_on_kernels() -> None:
    pages = {page.name for page in PAGES if page.parent == DOCS / "kernels"}
    assert pages >= {"README.md", "reduction.md", "matmul.md", "mixed.md", "atomics.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_snippet_of_a_page_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "docs"}
    for found in _SNIPPET.finditer(text):
        lines = text.count("\n", 0, found.start(1))
        code = compile("\n" * lines + found.group(1), str(page), "exec")
        exec(code, names)  # noqa: S102 - that is the test
