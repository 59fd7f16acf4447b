"""Where words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from npusim.values.errors import FileError
from npusim.values.language import say
from npusim.values.spelling import visible

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.reporting.document import Block, Page
    from npusim.values.status import Verdict

# Without a terminal there is no width to respect, but endless lines help nobody either.
PIPED_WIDTH = 140
NARROWEST = 40  # where a terminal is narrower, it wraps the lines itself
_ENDLESS = 10_000


def end_with(verdict: Verdict) -> None:
    """End the command as an answer asks for: 0 yes, 1 no, 3 unknown."""
    if verdict.exit_code:
        raise SystemExit(verdict.exit_code)


def emit(*parts: Page | Block | str) -> None:
    """Print pages, blocks and lines to standard output; colours only on a terminal."""
    from rich.console import Console

    from npusim.reporting.renderers.terminal import renderable

    is_given = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = max(NARROWEST, Console().width) if is_given else PIPED_WIDTH
    with standard_output():
        for number, part in enumerate(map(renderable, parts)):
            console = Console(width=width, highlight=False, markup=False, emoji=False)
            if not is_given:
                unlimited = console.options.update(width=_ENDLESS)
                console.width = max(width, console.measure(part, options=unlimited).minimum)
            if number:
                console.print()
            with console.capture() as printed:
                console.print(part)
            sys.stdout.writelines(f"{line.rstrip(' ')}\n" for line in printed.get().splitlines())


def emit_text(text: str) -> None:
    """Print the content of a file to standard output, as it is."""
    with standard_output():
        sys.stdout.write(text)


def emit_json(value: object) -> None:
    """Print one JSON document to standard output."""
    from npusim.reporting.renderers import jsonout

    emit_text(jsonout.dumps(value) + "\n")


def write_json(path: Path, value: object, *, force: bool) -> None:
    """Write one JSON document to a file."""
    from npusim.reporting.files import write_text
    from npusim.reporting.renderers import jsonout

    write_text(path, jsonout.dumps(value) + "\n", force=force)


def note(text: str) -> None:
    """Tell something that isn't part of the result."""
    _tell(say("note: {text}\n").format(text=visible(text)))


def progress(text: str) -> None:
    """Say what is being worked on, on a terminal only; the next message replaces it."""
    if sys.stderr.isatty():
        _tell(f"\r\x1b[K{visible(text)}")


def complain(message: str, remedy: str = "") -> None:
    """Say what is wrong and what to do about it."""
    with suppress(OSError):
        sys.stdout.flush()
    progress("")
    _tell(
        say("error: {message}\n").format(message=visible(message))
        + (f"{visible(remedy)}\n" if remedy else "")
    )


def _tell(text: str) -> None:
    with suppress(OSError):  # a result isn't lost because nobody hears the notes
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def standard_output() -> Iterator[None]:
    """What is written within is standard output; FileError where that is full or closed."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read has read enough
    except OSError as error:
        problem = say("can't be written: {value}").format(value=error.strerror or error)
        raise FileError(
            "standard output", problem, say("Write to a file, or free some space.")
        ) from None


class _Closed(io.TextIOBase):
    """A standard output that isn't there."""

    def write(self, text: str, /) -> int:
        """Fails, as it does on a closed file."""
        raise OSError(
            errno.EBADF, say("it is closed, {text} characters are lost").format(text=len(text))
        )


def open_streams() -> None:
    """Make standard output and error usable even where this process was started without them.

    Writing to a standard output that isn't there fails; standard error goes nowhere.
    """
    for name in ("COLUMNS", "LINES"):  # rich takes any digit for a number, superscripts too
        if name in os.environ and not os.environ[name].strip("0").isdecimal():  # or no columns
            del os.environ[name]
    if sys.stdout is None:
        os.open(os.devnull, os.O_RDONLY)  # so that no file gets its number
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a letter still shows the rest
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Write out what is left for standard output, once; FileError as for :func:`emit`."""
    stream = sys.stdout
    try:
        with standard_output():
            stream.flush()
    except (OSError, FileError):
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # nothing is tried again
        raise
