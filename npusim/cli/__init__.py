"""The command line: one module for each verb, and one place where errors become messages."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, Self

from npusim.values import language
from npusim.values.garbage import collect_rarely

__all__ = ["main"]

_SIGNALLED = 128  # and the number of the signal: the exit code of what a signal ends, as in shells
INTERRUPTED = _SIGNALLED + signal.SIGINT
"""The exit code after Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 yes, 1 no (or failed), 2 wrong usage, 3 unknown."""
    code = INTERRUPTED
    with _CtrlC() as interruption, suppress(KeyboardInterrupt):
        code = _run(list(sys.argv[1:] if argv is None else argv), interruption)
    sys.exit(_SIGNALLED + interruption.number if interruption.number else code)


class _CtrlC:
    """Ctrl-C or a SIGTERM while a command runs; before and after, they end it without a word.

    Whoever calls `main` within a program of his own keeps his own handler afterwards.
    """

    def __init__(self) -> None:
        self.number = 0  # of the signal that has come
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._lost
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[each] = signal.signal(each, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)
        sys.unraisablehook = self._unraisable

    def _come(self, number: int, _: object) -> None:
        self.number = number
        raise KeyboardInterrupt

    def _lost(self, about: Any) -> None:
        """Ctrl-C came where no exception can leave (a finaliser): it comes again in a moment."""
        if issubclass(about.exc_type, KeyboardInterrupt):
            threading.Timer(0.01, signal.raise_signal, (self.number or signal.SIGINT,)).start()
        else:
            self._unraisable(about)


def _run(arguments: list[str], interruption: _CtrlC) -> int:
    """The exit code of a command line, when all it has to say is said."""
    # Taken out here and not by a verb, so that it may be appended to any failing command.
    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    try:
        from npusim.cli import output

        arguments = _spoken_to(arguments)

        output.open_streams()
        collect_rarely()
        from npusim.cli.app import application, as_words
        from npusim.reading.files import forget_what_was_read

        forget_what_was_read()

        try:
            application(arguments)(args=as_words(arguments), prog_name="npusim")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        output.flush()
    except BrokenPipeError:  # whoever read has read enough
        return 1
    except Exception as problem:
        if interruption.number:  # in the middle of an import, say, which then failed
            return INTERRUPTED
        if debug:
            raise
        return _explain(problem, as_json="--json" in arguments)
    finally:
        language.speak("en")  # whoever called this within a program of his own reads on in English
    return code


def _spoken_to(arguments: list[str]) -> list[str]:
    """Choose the language by ``--lang`` or else by the environment; the arguments without it.

    What programs read (--json) stays English, whatever their environment is.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    name = ""
    rest: list[str] = []
    own = iter(arguments[:end])
    for word in own:
        if word == "--lang":
            name = next(own, "nothing")
        elif word.startswith("--lang="):
            name = word.partition("=")[2]
        else:
            rest.append(word)
    found = language.known(name) if name else language.wanted(os.environ)
    if not found:
        from npusim.values.errors import UnknownNameError

        raise UnknownNameError("language", name, language.LANGUAGES)
    language.speak("en" if "--json" in rest else found)
    return [*rest, *arguments[end:]]


def _explain(problem: Exception, *, as_json: bool) -> int:
    """Print what went wrong to standard error (and as JSON, if asked); give the exit code."""
    from npusim.cli import output
    from npusim.values.errors import FileError, NpusimError

    if isinstance(problem, MemoryError):
        from npusim.values.host import too_large

        problem = too_large("what is asked", problem)
    elif isinstance(problem, OSError):
        problem = FileError(problem.filename or "the system", problem.strerror or str(problem))
    if isinstance(problem, NpusimError):
        if as_json:
            from npusim.reporting.renderers import jsonout

            with suppress(OSError, NpusimError):  # standard output may be what is wrong
                output.emit_json({"error": jsonout.error(problem)})
                output.flush()
        output.complain(problem.message, problem.remedy)
        return problem.exit_code
    what = f"internal error, please report it: {type(problem).__name__}: {problem}"
    output.complain(what, "Run the same command with --debug for the traceback.")
    return 1
