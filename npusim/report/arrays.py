"""Reading and writing .npy and .npz so that bfloat16 survives the journey.

NumPy's format has no name for bfloat16 and its 8-bit relatives: np.save writes them as anonymous
bytes (`|V2`).  We store such an array as unsigned integers of the same width, and the names of
their types in one more entry, `__dtypes__`, which is a JSON object {entry: dtype}.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from npusim.report.files import atomic_write
from npusim.values.errors import DTypeError, FileError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DTYPES_ENTRY = "__dtypes__"

# numpy.dtype.isbuiltin of a type that a package has added, such as ml_dtypes.bfloat16.
_USER_DTYPE = 2

# What NumPy and zipfile raise for a file that is cut off, altered or something else altogether.
_BROKEN = (
    ValueError,
    EOFError,
    OSError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
)


def read_npy(path: str | Path) -> Array:
    """The array in an .npy file; `|V2` is taken for bfloat16, whose name np.save forgets."""
    import numpy as np

    with _loaded(path) as content:
        if not isinstance(content, np.ndarray):
            raise FileError(path, "is an archive of several arrays", "Pass it with --inputs.")
        return _as_bfloat16(content) if _anonymous_half(content) else content


def read_npz(path: str | Path) -> dict[str, Array]:
    """All arrays of an .npz by name, with the types that `__dtypes__` gives them."""
    import numpy as np

    with _loaded(path) as content:
        if isinstance(content, np.ndarray):
            raise FileError(path, "holds one array without a name", "Pass it as NAME=FILE.npy.")
        try:
            arrays = {name: np.asarray(content[name]) for name in content.files}
        except _BROKEN as problem:
            raise FileError(
                path, f"is damaged: {_first_line(problem)}", "Write it again."
            ) from problem
    names = _dtype_names(path, arrays.pop(DTYPES_ENTRY, None))
    for name, dtype_name in names.items():
        if name in arrays:
            arrays[name] = _retype(path, name, arrays[name], dtype_name)
    return {n: _as_bfloat16(a) if _anonymous_half(a) else a for n, a in arrays.items()}


def write_npz(path: str | Path, arrays: Mapping[str, Array], *, force: bool = False) -> None:
    """Write the arrays to an .npz that `read_npz` reads back bit for bit."""
    import numpy as np

    stored: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).reshape(np.shape(array))
        if data.dtype.isbuiltin == _USER_DTYPE:
            names[name] = data.dtype.name
            data = data.view(np.dtype(f"u{data.dtype.itemsize}"))
        stored[name] = data
    if names:
        stored[DTYPES_ENTRY] = np.array(json.dumps(names))
    with atomic_write(path, force=force) as stream:
        np.savez(stream, **stored)


@contextmanager
def _loaded(path: str | Path) -> Iterator[Any]:
    """What numpy.load makes of the file: an array or an archive, readable within the block."""
    import numpy as np

    file = Path(path)
    if file.is_dir():
        raise FileError(path, "is a folder, not a file")
    if not file.exists():
        raise FileError(path, "doesn't exist")
    with ExitStack() as stack:
        try:
            # opened here and not by numpy.load, which forgets to close a damaged archive
            content = np.load(stack.enter_context(file.open("rb")), allow_pickle=False)
        except PermissionError as problem:
            raise FileError(path, "can't be read: no permission") from problem
        except _BROKEN as problem:
            remedy = "Write it again with numpy.save or numpy.savez."
            raise FileError(path, "is not a readable .npy or .npz file", remedy) from problem
        yield content


def _dtype_names(path: str | Path, entry: Array | None) -> dict[str, str]:
    if entry is None:
        return {}
    try:
        names = json.loads(str(entry))
    except ValueError as problem:
        raise FileError(path, f"entry {DTYPES_ENTRY} is not JSON") from problem
    if not isinstance(names, dict):
        raise FileError(path, f"entry {DTYPES_ENTRY} is not a JSON object {{entry: dtype}}")
    return {str(name): str(dtype_name) for name, dtype_name in names.items()}


def _retype(path: str | Path, name: str, array: Array, dtype_name: str) -> Array:
    from npusim.values.dtypes import dtype

    try:
        wanted = dtype(dtype_name).numpy
    except DTypeError as problem:
        raise FileError(path, f"entry {name}: {problem.message}", problem.remedy) from problem
    if wanted is None or wanted.itemsize != array.dtype.itemsize:
        problem_text = f"entry {name}: {array.dtype} can't hold {dtype_name}"
        raise FileError(path, problem_text, "Store it as unsigned integers of the same width.")
    return array.view(wanted)


def _anonymous_half(array: Array) -> bool:
    """True for what np.save has made of bfloat16: two bytes without a type."""
    kind = array.dtype
    return bool(kind.kind == "V" and kind.itemsize == 2 and kind.isbuiltin != _USER_DTYPE)


def _as_bfloat16(array: Array) -> Array:
    import ml_dtypes

    return cast("Array", array.view(ml_dtypes.bfloat16))


def _first_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
