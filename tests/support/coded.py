"""What `check` answers to calls that are written as on the command line."""

from __future__ import annotations

from npusim import Device
from npusim.cli.arguments import read_assignments
from npusim.operators.resolve import resolve

# A call that is taken, and changes of it with the code that they give: 0 is taken too, and None
# what a device may take and isn't modelled. "-" leaves a parameter out.
Rows = list[tuple[str, str, dict[str, int | None]]]


def read(text: str) -> dict[str, str]:
    """Names and values of a line."""
    return dict(word.split("=", 1) for word in text.split())


def code(soc: str, name: str, words: dict[str, str]) -> int | None:
    """The code of a call; None where only a device knows."""
    given = {key: value for key, value in words.items() if value != "-"}
    listed = [f"{key}={value}" for key, value in given.items()]
    status = Device(soc).check(name, **read_assignments(resolve(name, given), listed))
    return None if status.verdict == "unknown" else status.code


def spread(rows: Rows) -> list[tuple[str, str, str, int | None]]:
    """(interface, call, change, code), with no change and 0 for each call itself."""
    return [
        (name, call, change, wanted)
        for name, call, changes in rows
        for change, wanted in {"": 0, **changes}.items()
    ]
