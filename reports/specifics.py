"""Writes reports/specifics.md: numbers and switches that serve one family of operators.

    python reports/specifics.py > reports/specifics.md

They are read from the code itself.

A number is a constant of a module under ops/, npusim/schedules or npusim/library; a switch is a
word that an operator's row or class sets aside of the rule. What each is for stands behind it or
above it, where it comes from in the module's first paragraph with the word Source.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("ops", "npusim/schedules", "npusim/library")
# Words by which an operator's row or class leaves the rule, and what the rule is.
SWITCHES = {
    "fuses": "axes that lie side by side are dealt out as one",
    "stale": "operands are as likely in L2 as any",
    "by_lanes": "a repeat covers as many rows of a fractal as fit",
    "most_columns": "rows of any length are worked on together",
    "least_rows": "a core gets one row and more",
    "many_variants": "reductions and rows for any shape wait for the code of many variants",
    "frequencies": "rows are added at places spread evenly",
}
_Module = tuple[str, ast.Module, list[str]]
_NUMBER = re.compile(r"^_?[A-Z][A-Z0-9_]*$")


class Specific(NamedTuple):
    """One number or switch: where, what it is called, its value, what it is for and its source."""

    place: str
    name: str
    value: str
    meaning: str
    source: str


def numbers(folders: Sequence[str] = FOLDERS) -> Iterator[Specific]:
    """Constants of the modules of some folders."""
    for path, tree, lines in _modules(folders):
        source = _source(ast.get_docstring(tree) or "")
        for node in tree.body:
            if not isinstance(node, ast.Assign) or not _numeric(node.value):
                continue
            name = getattr(node.targets[0], "id", "")
            if _NUMBER.match(name):
                yield Specific(path, name, ast.unparse(node.value), _said(lines, node), source)


def switches(folders: Sequence[str] = FOLDERS) -> Iterator[Specific]:
    """Words of operators' rows and classes that leave a rule."""
    for path, tree, lines in _modules(folders):
        source = _source(ast.get_docstring(tree) or "")
        for node in ast.walk(tree):
            found: list[tuple[str, ast.expr]] = []
            who = ""
            if isinstance(node, ast.Call):
                who = next((str(a.value) for a in node.args if isinstance(a, ast.Constant)), "")
                found = [(word.arg or "", word.value) for word in node.keywords]
            elif isinstance(node, ast.ClassDef):
                who = node.name
                found = [
                    (part.targets[0].id, part.value)
                    for part in node.body
                    if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
                ]
            for name, value in found:
                if name in SWITCHES and who and isinstance(value, ast.Constant | ast.Tuple):
                    said = f"{who}: {_said(lines, node)}".rstrip(": ")
                    yield Specific(path, name, ast.unparse(value), said, source)


def summary() -> Iterator[str]:
    """The lines of a section: how many there are, and those that no public source is named for."""
    found = list(numbers())
    sourced = sum(bool(each.source) for each in found)
    yield (
        "Rates, latencies and launch costs hold for all operators. How a kernel cuts its work is "
        f"its family's own, and some of that are numbers: [{len(found)} of them](specifics.md), "
        f"{sourced} in modules that follow a public source. None is multiplied onto a time. What "
        "leaves a rule for some operators:\n"
    )
    yield from switch_table()


def switch_table() -> Iterator[str]:
    """Switches, and the rules they leave."""
    yield "| where | operator | switch | else | source |"
    yield "|---|---|---|---|---|"
    for each in switches():
        told = f"`{each.name}={each.value}`"
        cells = (f"`{each.place}`", each.meaning, told, SWITCHES[each.name], each.source)
        yield _line(cells)


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# Numbers that serve one family of operators\n"
    yield (
        "`python reports/specifics.py > reports/specifics.md` reads them from the code: constants "
        "of modules under `ops/`, `npusim/schedules` and `npusim/library`, with what stands behind "
        "or above them, and the source that their module names. Coefficients of formulas and sizes "
        "that an instruction fixes are among them.\n"
    )
    yield "| where | number | value | what it is | source |"
    yield "|---|---|---|---|---|"
    for each in numbers():
        cells = (f"`{each.place}`", f"`{each.name}`", f"`{each.value}`", each.meaning, each.source)
        yield _line(cells)
    yield "\n## Switches\n"
    yield from switch_table()


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _modules(folders: Sequence[str]) -> Iterator[_Module]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield _module(path)


@cache
def _module(path: Path) -> _Module:
    text = path.read_text(encoding="utf-8")
    return path.relative_to(ROOT).as_posix(), ast.parse(text), text.splitlines()


def _numeric(value: ast.expr) -> bool:
    """A number, a sum or product of some, or several in brackets."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(_numeric, value.elts))
    if isinstance(value, ast.BinOp):
        return any(map(_numeric, (value.left, value.right)))
    return isinstance(value, ast.UnaryOp) and _numeric(value.operand)


def _said(lines: list[str], node: ast.stmt | ast.expr) -> str:
    """The comment behind a line, or those right above it."""
    _, mark, behind = lines[node.lineno - 1].partition("  # ")
    if mark:
        return behind.strip()
    above = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("# "):
            break
        above.append(line.strip().removeprefix("# "))
    return " ".join(reversed(above))


def _source(docstring: str) -> str:
    """What a docstring says from the word Source to the end of the paragraph."""
    for paragraph in docstring.split("\n\n"):
        _, mark, rest = paragraph.partition("Source")
        if mark:
            return " ".join(re.sub(r"^s?( of [^:]*)?:", "", rest, count=1).split())
    return ""


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in page())
