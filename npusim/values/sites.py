"""Lines of kernels: how they are called (`folder/file.py:12`), and what stands there."""

from __future__ import annotations

import linecache
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePath

_MOST_FILES = 10_000
_files: dict[str, str] = {}  # the file that `folder/file.py` stands for, the last one of that name


@lru_cache(maxsize=4096)
def site_of(path: str, line: int) -> str:
    """The last folder and the file of a path, and the line."""
    place = "/".join(PurePath(path).parts[-2:])
    if len(_files) < _MOST_FILES:
        _files[place] = path
    return f"{place}:{line}"


def source_line(site: str) -> str:
    """The line that a site names; nothing where its file isn't found.

    It is one that this process has named, one of npusim's operators, or, since programs in C++ name
    theirs in a process of their own, one in the folder where the user is, beside it or in it.
    """
    place, _, number = site.rpartition(":")
    parts = PurePath(place).parts
    if not number.isdecimal() or not parts or ".." in parts or place.startswith("/"):
        return ""
    here = Path.cwd()
    ops = find_spec("npusim.ops")
    shipped = (ops.submodule_search_locations or ()) if ops else ()
    own = [here / parts[-1]] if here.name == parts[0] or len(parts) == 1 else []
    candidates = [*(Path(folder) / place for folder in shipped), *own, here / place]
    if place in _files:
        candidates.insert(0, Path(_files[place]))
    for file in candidates:
        if file.is_file():
            return linecache.getline(str(file), int(number)).strip()
    return ""
