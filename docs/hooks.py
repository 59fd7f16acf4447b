"""What mkdocs asks while it builds the site (`mkdocs build --strict`).

Pages that are made from code are added; README, CONTRIBUTING and the reports are pages where they
stand. Links are written as they work in the repository, and rewritten here to work in the site.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

# Files of the repository that the site has beside docs/: their paths there.
RENAMED = {"README.md": "index.md", "README.zh.md": "zh.md"}
SHOWN = (
    *RENAMED,
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "reports/*.md",
    "reports/*.yaml",
    "reports/*/*.png",
    "reports/plans/**/*.yaml",
    "reports/data/README.md",
    "examples/**/*.*",
)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^()\s]+)\)")
_PLACE = re.compile(r"^[a-z]+:")


def shown() -> dict[str, str]:
    """Path in the repository -> path in the site, of files that stand outside of docs/."""
    files = (file for pattern in SHOWN for file in sorted(ROOT.glob(pattern)) if file.is_file())
    paths = (file.relative_to(ROOT).as_posix() for file in files)
    return {path: RENAMED.get(path, path) for path in paths if "/_" not in path}


def on_files(files: Any, config: Any) -> Any:
    """Add what isn't in docs/."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(Path(__file__).parent))  # mkdocs takes it out again after loading this
    from reference_pages import pages

    for path, text in pages().items():
        if (stub := files.get_file_from_path(path)) is not None:
            files.remove(stub)  # what stands for the page in the repository
        files.append(File.generated(config, path, content=text))
    for path, target in shown().items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from page to page of the repository become links within the site."""
    back = {target: path for path, target in shown().items()}
    site = page.file.src_uri
    return rewritten(markdown, back.get(site, f"docs/{site}"), site)


def on_page_content(html: str, **_: Any) -> str:
    """Roles of docstrings are code here: there is no index that they could look names up in."""
    return re.sub(r":(?:meth|class|func|mod):(?=<code>)", "", html)


def rewritten(markdown: str, path: str, site: str) -> str:
    """The text of the page at `path`, with links as they have to be at `site`."""
    there = shown()

    def link(found: re.Match[str]) -> str:
        bang, text, target = found.groups()
        text = _LINK.sub(link, text) if "](" in text else text
        place, hash_, anchor = target.partition("#")
        if not place or _PLACE.match(target):
            return f"{bang}[{text}]({target})"
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), place))
        goal = there.get(whole) or (whole[5:] if whole.startswith("docs/") else "")
        if not goal:  # what the site doesn't have stays a name
            return text
        relative = posixpath.relpath(goal, posixpath.dirname(site) or ".")
        return f"{bang}[{text}]({relative}{hash_}{anchor})"

    parts = re.split(r"(^```.*?^```$|`[^`\n]+`\](?!\())", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)
