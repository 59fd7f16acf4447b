"""Arrays in .npy and .npz, weighed by their headers before there is memory for them."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from npusim.reading.files import opened
from npusim.reading.limits import MOST_ARRAYS, MOST_HEADER_BYTES
from npusim.values.errors import FileError
from npusim.values.host import require_bytes
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# What NumPy and zipfile raise for a file that is cut off, altered or something else altogether; a
# header is a Python literal, with all that can be wrong with one.
_BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_MAGIC = b"\x93NUMPY"
_REMEDY = "Write it again with numpy.save or numpy.savez."


def array_in(path: str | PathLike[str]) -> Array:
    """The array in an .npy file. Raises FileError."""
    file = Path(path)
    with opened(file) as stream:
        if stream.read(2) == b"PK":
            raise FileError(
                file, say("is an archive of several arrays"), say("Pass it with --inputs.")
            )
        return _array(file, "", stream, file.stat().st_size)


def arrays_in(path: str | PathLike[str]) -> dict[str, Array]:
    """The arrays in an .npz file by name. Raises FileError."""
    file = Path(path)
    with opened(file) as stream:
        if stream.read(len(_MAGIC)) == _MAGIC:
            raise FileError(
                file, say("holds one array without a name"), say("Pass it as NAME=FILE.npy.")
            )
        try:
            archive = zipfile.ZipFile(stream)
        except _BROKEN as error:
            raise FileError(
                file, say("is not a readable .npy or .npz file"), say(_REMEDY)
            ) from error
        with archive:
            entries = archive.infolist()
            if len(entries) > MOST_ARRAYS:
                raise FileError(
                    file,
                    say("holds more than {most_arrays:,} arrays").format(most_arrays=MOST_ARRAYS),
                )
            require_bytes(sum(entry.file_size for entry in entries), str(file))
            return {
                entry.filename.removesuffix(".npy"): _entry(file, archive, entry)
                for entry in entries
            }


def _entry(file: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    name = f"entry {entry.filename} "
    try:
        with archive.open(entry) as stream:
            return _array(file, name, stream, entry.file_size)
    except _BROKEN as error:
        raise FileError(
            file,
            say("{name}is damaged: {first_line}").format(name=name, first_line=_first_line(error)),
            say(_REMEDY),
        ) from error


def _array(file: Path, name: str, stream: IO[bytes], size: int) -> Array:
    """The array in a stream of `size` bytes."""
    from numpy.lib import format as npy

    try:
        stream.seek(0)
        head = stream.read(12)
        version, length = head[6], int.from_bytes(head[8 : 10 if head[6] == 1 else 12], "little")
        if head[:6] != _MAGIC or version not in (1, 2) or length > MOST_HEADER_BYTES:
            raise FileError(
                file,
                say("{name}is not a readable .npy or .npz file").format(name=name),
                say(_REMEDY),
            )
        stream.seek(8)
        read = npy.read_array_header_1_0 if version == 1 else npy.read_array_header_2_0
        shape, _, kind = read(stream)
        need = math.prod(shape) * kind.itemsize
        if not kind.itemsize or need > size - stream.tell():
            raise FileError(
                file, say("{name}is damaged: its end is missing").format(name=name), say(_REMEDY)
            )
        require_bytes(need, f"{file}: {name}".rstrip(": "))
        stream.seek(0)
        found: Array = npy.read_array(stream, allow_pickle=False)
    except _BROKEN as error:
        problem = say("{name}is damaged, not a readable .npy or .npz file: {first_line}").format(
            name=name, first_line=_first_line(error)
        )
        raise FileError(file, problem, say(_REMEDY)) from error
    return found


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
