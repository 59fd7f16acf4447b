"""What has been read from data files before, kept between runs of the program.

One file of JSON for each name and installation in the user's cache folder, valid only for the very
texts and the very version of this package that it was made from, and only where nobody but the user
can write to it. ``NPUSIM_CACHE`` names another folder; empty, it turns the cache off. A folder that
can't be written and a file that can't be read cost nothing but time: the data files are parsed
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from npusim.values.version import __version__

T = TypeVar("T")

VARIABLE = "NPUSIM_CACHE"
_OTHERS_MAY_WRITE: Final = 0o022
_KIND, _TUPLE, _UNSET = "!", "()", "?"  # keys that no field of a data file has


def remembered(
    name: str,
    texts: Sequence[str],
    kind: type[T],
    make: Callable[[], T],
    parts: Iterable[type[Any]] = (),
) -> T:
    """``make()``, or what it returned the last time for the same ``texts``.

    That is of the `kind`, made of plain values, tuples and objects of the kind and the `parts`:
    pydantic models and frozen dataclasses.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    key = _key(texts)
    whose = hashlib.sha256(f"{name}\0{__file__}".encode())  # installations keep files of their own
    file = folder / f"{name[:80]}-{whose.hexdigest()[:8]}.json"
    found = _read(file, key, {each.__name__: each for each in (kind, *parts)})
    if not isinstance(found, kind):
        found = make()
        _write(file, key, found)
    return found


def is_ours(about: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and no other user may write to it.

    Windows keeps a user's folders apart by itself.
    """
    if sys.platform == "win32":
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_MAY_WRITE


def cache_folder() -> Path | None:
    """Where we keep files between runs; None where there is no place for them."""
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
    rooms = Path(__file__).parent, Path(__file__).parent.with_name("hardware")
    modules = sorted(module for room in rooms for module in room.glob("*.py"))
    about = [(str(module), module.stat().st_size, module.stat().st_mtime_ns) for module in modules]
    return repr((sys.version, __version__, about)).encode()


def _key(texts: Sequence[str]) -> str:
    """A digest of the texts and the code."""
    digest = hashlib.sha256(_code())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _read(file: Path, key: str, kinds: Mapping[str, type[Any]]) -> Any:
    def made(fields: dict[str, Any]) -> Any:
        name = fields.pop(_KIND, None)
        if name is None:
            return fields
        if name == _TUPLE:
            return tuple(fields[_TUPLE])
        return _made(kinds[name], fields)

    try:
        with file.open("rb") as stream:
            if not is_ours(os.fstat(stream.fileno())):
                return None
            head, body = stream.readline(), stream.read()
        if head.decode() != _head(key, body):
            return None
        return json.loads(body, object_hook=made)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is made anew
        return None


def _head(key: str, body: bytes) -> str:
    return f"{key} {hashlib.sha256(body).hexdigest()}\n"


def _made(kind: type[Any], fields: dict[str, Any]) -> Any:
    """An object of one of our kinds; what it is made of has been validated before it was kept."""
    if not hasattr(kind, "model_fields"):
        return kind(**fields)
    unset = fields.pop(_UNSET)
    state = {"__dict__": fields, "__pydantic_fields_set__": set(fields).difference(unset)}
    empty = {"__pydantic_extra__": None, "__pydantic_private__": None}
    found: Any = object.__new__(kind)
    found.__setstate__(state | empty)
    return found


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return {_KIND: _TUPLE, _TUPLE: [_plain(each) for each in value]}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    kind = type(value)
    head: dict[str, Any] = {_KIND: kind.__name__}
    names = getattr(kind, "model_fields", None)
    if names is None:
        names = kind.__dataclass_fields__
    else:
        head[_UNSET] = sorted(set(names) - value.model_fields_set)
    return head | {name: _plain(getattr(value, name)) for name in names}


def own_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, which only we may look into."""
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def _write(file: Path, key: str, value: object) -> None:
    scratch = None
    try:
        body = json.dumps(_plain(value), separators=(",", ":")).encode()
        own_folder(file.parent)
        descriptor, scratch = tempfile.mkstemp(dir=file.parent, suffix=".tmp")  # ours alone
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_head(key, body).encode() + body)
        Path(scratch).replace(file)
    except (OSError, AttributeError, TypeError, ValueError):
        if scratch is not None:
            with suppress(OSError):
                Path(scratch).unlink()
