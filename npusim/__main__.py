"""Runs the command line, as `python -m npusim` and as the script `npusim`."""

# The module `signal` is written in Python and takes as long as everything before it.
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)

# Until a command runs there is nothing to lose and nothing to say: Ctrl-C just ends the process.
if getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, SIG_DFL)

from npusim.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
