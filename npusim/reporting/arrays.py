"""Reading and writing .npy and .npz so that bfloat16 survives the journey.

NumPy's format has no name for bfloat16 and its 8-bit relatives: np.save writes them as anonymous
bytes (`|V2`).  We store such an array as unsigned integers of the same width, and the names of
their types in one more entry, `__dtypes__`, which is a JSON object {entry: dtype}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from npusim.reading.arrays import array_in, arrays_in
from npusim.reading.markup import json_value
from npusim.reporting.files import atomic_write
from npusim.values.errors import DTypeError, FileError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DTYPES_ENTRY = "__dtypes__"

# numpy.dtype.isbuiltin of a type that a package has added, such as ml_dtypes.bfloat16.
_USER_DTYPE = 2


def read_npy(path: str | Path) -> Array:
    """The array in an .npy file; `|V2` is taken for bfloat16, whose name np.save forgets."""
    return _named(array_in(path))


def read_npz(path: str | Path) -> dict[str, Array]:
    """All arrays of an .npz by name, with the types that `__dtypes__` gives them."""
    arrays = arrays_in(path)
    names = _dtype_names(path, arrays.pop(DTYPES_ENTRY, None))
    for name, dtype_name in names.items():
        if name in arrays:
            arrays[name] = _retype(path, name, arrays[name], dtype_name)
    return {name: _named(array) for name, array in arrays.items()}


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


def _dtype_names(path: str | Path, entry: Array | None) -> dict[str, str]:
    if entry is None:
        return {}
    names = json_value(str(entry), f"{path}: entry {DTYPES_ENTRY}")
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


def _named(array: Array) -> Array:
    """The array; what np.save has made of bfloat16, two bytes without a type, is that again."""
    import ml_dtypes

    kind = array.dtype
    if kind.kind == "V" and kind.itemsize == 2 and kind.isbuiltin != _USER_DTYPE:
        return cast("Array", array.view(ml_dtypes.bfloat16))
    return array
