"""What has been read from data files before, kept between runs of the program.

One file for each name in the user's cache folder, valid only for the very texts and the very
version of this package that it was made from. ``NPUSIM_CACHE`` names another folder; empty, it
turns the cache off. A folder that can't be written and a file that can't be read cost nothing but
time: the data files are parsed again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, TypeVar

from npusim.values.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

VARIABLE = "NPUSIM_CACHE"
_DIGEST_BYTES = hashlib.sha256().digest_size


def remembered(name: str, texts: Sequence[str], kind: type[T], make: Callable[[], T]) -> T:
    """``make()``, or what it returned the last time for the same ``texts``."""
    folder = _folder()
    if folder is None:
        return make()
    key = _key(texts)
    file = folder / f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.pickle"
    found = _read(file, key, kind)
    if found is None:
        found = make()
        _write(file, key, found)
    return found


def _folder() -> Path | None:
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(  # noqa: PTH118 - may be relative
            os.path.expanduser("~"),  # noqa: PTH111 - Path.home() raises where nobody has one
            ".cache",
        )
    return Path(base) / "npusim" if base else None


@cache
def _code() -> bytes:
    """What tells versions of the code apart that turns texts into objects."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    about = [(str(module), module.stat().st_size, module.stat().st_mtime_ns) for module in modules]
    return repr((sys.version, __version__, about)).encode()


def _key(texts: Sequence[str]) -> bytes:
    """A digest of the texts and the code."""
    digest = hashlib.sha256(_code())
    for text in texts:
        data = text.encode()
        digest.update(f"{len(data)}\0".encode())
        digest.update(data)
    return digest.digest()


def _read(file: Path, key: bytes, kind: type[T]) -> T | None:
    try:
        content = file.read_bytes()
        check, body = content[_DIGEST_BYTES : 2 * _DIGEST_BYTES], content[2 * _DIGEST_BYTES :]
        if content[:_DIGEST_BYTES] != key or hashlib.sha256(body).digest() != check:
            return None
        found = pickle.loads(body)  # noqa: S301 - the user's own file, as Python's compiled modules
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is made anew
        return None
    return found if isinstance(found, kind) else None


def _write(file: Path, key: bytes, value: object) -> None:
    temporary = file.with_suffix(f".{os.getpid()}-{get_ident()}.tmp")
    try:
        body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(key + hashlib.sha256(body).digest() + body)
        temporary.replace(file)
    except (OSError, pickle.PicklingError):
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
