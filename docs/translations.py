"""The catalogue of what npusim says, and whether it has everything: `python docs/translations.py`.

Takes the messages from the code, brings `docs/npusim.zh.po` in step with them
and compiles it; prints what lacks a translation. `tests/house/test_translations.py` fails while
something does. Messages are the help of every verb and option, what stands in `say()` and
`ngettext()`, and labels, which renderers look up: of these only those that the catalogue has.
"""

from __future__ import annotations

import ast
import re
import sys
from datetime import UTC, datetime
from functools import cache
from inspect import cleandoc
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from babel.messages.catalog import Catalog

ROOT = Path(__file__).parent.parent
PO = ROOT / "docs/npusim.zh.po"
MO = ROOT / "npusim/locale/zh/LC_MESSAGES/npusim.mo"
SPEAKING = ("say", "ngettext")
SILENT = ("ascendc", "schedules", "library", "pyasc", "triton", "capi")  # rooms without sentences
WHEN = datetime(2026, 1, 1, tzinfo=UTC)  # the same messages make the same bytes
TYPERS = ("Options", "Arguments", "Commands", "Usage: ", "required", "default: {default}")
TYPERS += ("env var: {var}", "Show this message and exit.")

# Labels that are put together, or stand in files of data: classes of operators.
COMPOSED = ("latency bound: compute caused", "latency bound: memory caused")
CLASSES = [
    "ai_cpu",
    "attention",
    "batch_norm_training",
    "cast",
    "data_movement",
    "grid_sample",
    "group_norm",
    "grouped_matmul",
    "indexing",
    "layer_norm",
    "loss",
    "moe",
    "optimizer",
    "quant",
    "quant_matmul",
    "random",
    "recurrent",
    "resize",
    "rms_norm",
    "roi_align",
    "rotary",
    "softmax",
    "sorting",
    "weight_quant_matmul",
]


@cache
def sources() -> tuple[tuple[Path, ast.Module], ...]:
    """Every module of npusim that people are spoken to from, and its tree."""
    rooms = (each for each in sorted((ROOT / "npusim").iterdir()) if each.name not in SILENT)
    files = (file for room in rooms for file in sorted(room.rglob("*.py")))
    return tuple((file, ast.parse(file.read_text())) for file in files)


def helped() -> Iterator[str]:
    """The help of every verb and option."""
    import typer

    from npusim.cli.app import application

    def of(command: Any) -> Iterator[str]:
        yield from (cleandoc(each) for each in (command.help, command.epilog) if each)
        for option in command.params:
            if getattr(option, "help", None):
                yield option.help
        for each in getattr(command, "commands", {}).values():
            yield from of(each)

    yield from of(typer.main.get_command(application([])))
    yield from TYPERS


def spoken() -> Iterator[str | tuple[str, str]]:
    """What stands in `say()` and `ngettext()`."""
    for file, tree in sources():
        for node in ast.walk(tree):
            name = isinstance(node, ast.Call) and getattr(node.func, "id", "")
            if not isinstance(node, ast.Call) or name not in SPEAKING:
                continue
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if name == "say" and len(words) == 1:
                yield words[0]
            elif name == "ngettext" and len(words) == 2:
                yield words[0], words[1]
            elif name == "ngettext":
                sys.exit(f"{file}:{node.lineno}: ngettext takes its messages as they are")


def in_templates() -> Iterator[str]:
    """What stands in `say()` in the templates of pages."""
    for file in sorted((ROOT / "npusim").rglob("*.j2")):
        yield from re.findall(r'say\("([^"]+)"\)', file.read_text())


def named() -> dict[str, str]:
    """Products and lines of products, which have their Chinese names in their own file."""
    from npusim.hardware.families import FAMILIES, plural
    from npusim.hardware.loading import profile_named, profile_names
    from npusim.hardware.products import product_lines, products

    own = {each.name_en: each.name_zh for each in (*products(), *product_lines()) if each.name_zh}
    own |= {plural(family): plural(family).replace(" products", " 系列产品") for family in FAMILIES}
    for line in {profile_named(name).product_line for name in profile_names()}:
        parts = (own.get(each, each.replace("inference", "推理")) for each in line.split(" / "))
        own[line] = " / ".join(each.replace(" products", "系列产品") for each in parts)
    return {english: chinese for english, chinese in own.items() if english != chinese}


@cache
def constants() -> frozenset[str]:
    """Every string of the code, of which labels are some."""
    nodes = (node for _file, tree in sources() for node in ast.walk(tree))
    return frozenset(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def read() -> Catalog:
    """The catalogue as it is."""
    from babel.messages.pofile import read_po

    with PO.open("rb") as file:
        return read_po(file, locale="zh", domain="npusim", charset="utf-8")


def wanted() -> dict[str, str | tuple[str, str]]:
    """Every message that must be translated, by its first form."""
    messages = [*helped(), *spoken(), *in_templates(), *COMPOSED, *CLASSES]
    return {each if isinstance(each, str) else each[0]: each for each in messages}


def current() -> Catalog:
    """The catalogue in step with the code: what is new lacks its translation."""
    from babel.messages.catalog import Catalog

    before, made = read(), Catalog("zh", "npusim", "# What npusim says, in Chinese.", "npusim")
    made.header_comment = "# What npusim says, in Chinese; docs/translations.py keeps it in step."
    made.creation_date = made.revision_date = WHEN
    made.mime_headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "8bit"),
        ("Language", "zh"),
        ("Plural-Forms", "nplurals=1; plural=0;"),
    ]
    asked = wanted()
    for key, message in asked.items():
        found = before.get(key)
        fields = ["python-brace-format"] if "{" in key else []
        made.add(message, found.string if found else "", flags=fields)
    for english, chinese in named().items():
        if english not in asked:
            made.add(english, chinese, auto_comments=["product"])
    for found in before:
        key = found.id[0] if isinstance(found.id, tuple) else found.id
        if key and key not in asked and key not in made and found.string and key in constants():
            made.add(found.id, found.string, auto_comments=["label"])
    return made


def lacking(catalogue: Catalog) -> list[str]:
    """The messages without a translation, or with one that has other fields than the message."""
    from string import Formatter

    def fields(text: str) -> set[str | None]:
        try:
            return {name for _text, name, _spec, _conversion in Formatter().parse(text)} - {None}
        except ValueError:  # braces that are no fields
            return set()

    lack = []
    for each in catalogue:
        key = each.id[0] if isinstance(each.id, tuple) else each.id
        told = each.string[0] if isinstance(each.string, tuple | list) else each.string
        if key and (not told or not fields(told) <= fields(key)):
            lack.append(key)
    return lack


def texts(catalogue: Catalog) -> tuple[bytes, bytes]:
    """The two files: for people and for gettext."""
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import write_po

    po, mo = BytesIO(), BytesIO()
    write_po(po, catalogue, width=100, sort_output=True, omit_header=False, ignore_obsolete=True)
    write_mo(mo, catalogue)
    return po.getvalue(), mo.getvalue()


if __name__ == "__main__":
    made = current()
    for path, content in zip((PO, MO), texts(made), strict=True):
        path.write_bytes(content)
    for each in lacking(made):
        sys.stdout.write(f"{each!r}\n")
    sys.exit(bool(lacking(made)))
