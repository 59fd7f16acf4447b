"""A header that a program includes and nobody finds: its name, and what there is instead."""

from __future__ import annotations

import os
import re
import subprocess
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FATAL = re.compile(r"fatal error: (\S+): No such file or directory")


def missing_header(command: Sequence[str], headers: Path) -> tuple[str, str] | None:
    """Which header a compiler's `command` didn't find, in a sentence, and what to write.

    `headers` is the folder of npusim's own. None where it fails for another reason.
    """
    done = subprocess.run(  # noqa: S603 - the user's own compiler
        [*command, "-fsyntax-only"],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    found = _FATAL.search(done.stderr)
    if found is None:
        return None
    name = found[1]
    shipped = [each.relative_to(headers).as_posix() for each in headers.rglob("*.h")]
    own = [each for each in shipped if not each.startswith("npusim/")]
    same = [each for each in own if PurePosixPath(each).name == PurePosixPath(name).name]
    near = same or get_close_matches(name, own, n=1, cutoff=0.7)
    instead = f'Write #include "{near[0]}", or give' if near else "Give"
    told = f"{name} is in none of the folders that headers are looked for in; npusim's are in "
    told += f"{headers} (npusim capi --include-dir)"
    remedy = f"{instead} the folder of your own header with -I. Kernels find all of theirs in "
    return told, remedy + 'kernel_operator.h, hosts in "acl/acl.h" and "aclnnop/".'
