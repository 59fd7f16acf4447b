"""Runs of kernels that are kept on disk, if asked: a file that several processes share.

``NPUSIM_RUNS`` names the file; without it there is none. It is a database of SQLite, which comes
with Python: its transactions keep writers apart and survive a process that dies in one, without a
server, and it holds plain bytes, where libraries built on it keep pickles, which run code when they
are read. Keys are digests that cover npusim's code; every value has a checksum. A file that is
damaged is put aside and begun anew, one that others may write to isn't read; whatever else goes
wrong with it costs nothing but time.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.reading.kept import is_ours, own_folder
from npusim.values.locks import lock
from npusim.values.version import __version__

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

VARIABLE: Final = "NPUSIM_RUNS"
_PATIENCE_S: Final = 5.0  # that a process waits for others that write
_AT_ONCE: Final = 64  # runs in a transaction
_CHECKSUM_BYTES: Final = 4


@cache
def shared() -> RunStore | None:
    """The store of this process, if ``NPUSIM_RUNS`` names one."""
    path = os.environ.get(VARIABLE)
    return RunStore(Path(path)) if path else None


class RunStore:
    """Texts by keys in a file; for any threads, and for processes that were forked meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = lock()
        self._waiting: dict[bytes, bytes] = {}
        self._database: sqlite3.Connection | None = None
        self._process = 0
        self._is_off = False

    def get(self, key: bytes) -> bytes | None:
        """What is kept under a key, by whomever; None also for what is damaged."""
        own = _code() + key
        with self._lock:
            if own in self._waiting:
                return self._waiting[own][_CHECKSUM_BYTES:]
            rows = self._ask("SELECT text FROM runs WHERE key = ?", [(own,)])
        if not rows or not isinstance(rows[0][0], bytes):
            return None
        told, text = rows[0][0][:_CHECKSUM_BYTES], rows[0][0][_CHECKSUM_BYTES:]
        return text if told == _checksum(own, text) else None

    def put(self, key: bytes, text: bytes) -> None:
        """Keep it; on disk when some have come together, or the process ends."""
        own = _code() + key
        with self._lock:
            self._waiting[own] = _checksum(own, text) + text
            if len(self._waiting) >= _AT_ONCE:
                self._write()

    def flush(self) -> None:
        """Bring to disk what waits."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting = list(self._waiting.items()), {}
        if waiting:
            self._ask("INSERT OR REPLACE INTO runs VALUES (?, ?)", waiting)

    def _ask(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> list[tuple[object, ...]]:
        """What a statement gives for some rows, in one transaction; nothing where it can't be."""
        if self._process != os.getpid():  # a connection must not be shared with one's parent
            if self._process:
                self._waiting = {}
            self._process, self._database = os.getpid(), None
            _at_end(self)
        for _ in range(2):
            if self._is_off:
                break
            try:
                import sqlite3
            except ImportError:  # a Python that was built without it
                self._is_off = True
                break
            try:
                database = self._database = self._database or self._opened()
                with database:
                    if len(rows) == 1:
                        return list(database.execute(statement, rows[0]))
                    database.executemany(statement, rows)
                return []
            except sqlite3.OperationalError:  # others are writing for long, or the disk is full
                break
            except sqlite3.DatabaseError:
                self._put_aside()
            except (OSError, ValueError):
                self._is_off = True
        return []

    def _opened(self) -> sqlite3.Connection:
        """The file, made if it isn't there; raises OSError for one that isn't ours alone."""
        import sqlite3

        own_folder(self._path.parent)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not is_ours(os.fstat(descriptor)):
                raise PermissionError
        finally:
            os.close(descriptor)
        database = sqlite3.connect(self._path, timeout=_PATIENCE_S, check_same_thread=False)
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS runs (key BLOB PRIMARY KEY, text BLOB) WITHOUT ROWID"
        )
        return database

    def _put_aside(self) -> None:
        """Begin anew where the file is no database any more; another process may have done so."""
        if self._database is not None:
            with suppress(Exception):
                self._database.close()
        self._database = None
        with suppress(OSError):
            self._path.replace(f"{self._path}.damaged")
            for rest in ("-journal", "-wal", "-shm"):
                Path(f"{self._path}{rest}").unlink(missing_ok=True)


def _at_end(store: RunStore) -> None:
    import atexit

    atexit.register(store.flush)


def _checksum(key: bytes, text: bytes) -> bytes:
    return zlib.crc32(key + text).to_bytes(_CHECKSUM_BYTES, "big")


@cache
def _code() -> bytes:
    """A digest of all of npusim's code: kernels, player, costs."""
    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(__version__.encode(), digest_size=8)
    files = [each for kind in ("*.py", "*.c", "*.h", "*.so") for each in root.rglob(kind)]
    for file in sorted(files, key=lambda each: each.relative_to(root).parts):
        digest.update("/".join(file.relative_to(root).parts).encode())
        with suppress(OSError):
            digest.update(file.read_bytes())
    return digest.digest()
