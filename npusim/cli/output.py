"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.report.document import Block, Page

# Without a terminal there is no width to respect, but endless lines help nobody either.
PIPED_WIDTH = 140
_ENDLESS = 10_000


def emit(*parts: Page | Block | str) -> None:
    """Print pages, blocks and lines to standard output; colours only on a terminal."""
    from rich.console import Console

    from npusim.report.renderers.terminal import renderable

    width = Console().width if sys.stdout.isatty() else PIPED_WIDTH
    for number, part in enumerate(map(renderable, parts)):
        console = Console(width=width, highlight=False, markup=False, emoji=False)
        unlimited = console.options.update(width=_ENDLESS)
        console.width = max(width, console.measure(part, options=unlimited).minimum)
        if number:
            console.print()
        console.print(part)


def emit_text(text: str) -> None:
    """Print the content of a file to standard output, as it is."""
    sys.stdout.write(text)


def emit_json(value: object) -> None:
    """Print one JSON document to standard output."""
    from npusim.report.renderers import jsonout

    sys.stdout.write(jsonout.dumps(value) + "\n")


def note(text: str) -> None:
    """Tell something that isn't part of the result."""
    sys.stderr.write(f"note: {text}\n")


def progress(text: str) -> None:
    """Say what is being worked on, on a terminal only; the next message replaces it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def complain(message: str, remedy: str = "") -> None:
    """Say what is wrong and what to do about it."""
    sys.stdout.flush()
    progress("")
    sys.stderr.write(f"error: {message}\n")
    if remedy:
        sys.stderr.write(f"{remedy}\n")
