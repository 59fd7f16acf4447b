"""Runs the command line, as `python -m npusim` and as the script `npusim`."""

import signal

# Until a command runs there is nothing to lose and nothing to say: Ctrl-C just ends the process.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from npusim.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
