"""What lies beside a config: the header of a safetensors file, how msModelSlim quantised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from npusim.reading.files import opened, read_text
from npusim.reading.markup import json_value
from npusim.values.errors import FileError
from npusim.values.language import say

_LENGTH_BYTES: Final = 8
_MOST_HEADER: Final = 64 << 20
_NAMES: Final = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "I8": "int8"}


def described_beside(folder: Path) -> str:
    """The scheme in what msModelSlim writes beside quantised weights; "" without such a file."""
    for file in sorted(folder.glob("quant_model_description*.json")):
        said = json_value(read_text(file), file)
        if isinstance(said, dict) and isinstance(said.get("model_quant_type"), str):
            return str(said["model_quant_type"])
    return ""


def dtype_of_weights(folder: Path) -> str | None:
    """What most weights of the first ``*.safetensors`` of a folder are; None without such a file.

    Raises FileError for a file that is none.
    """
    file = next(iter(sorted(folder.glob("*.safetensors"))), None)
    if file is None:
        return None
    with opened(file) as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if not 0 < length <= _MOST_HEADER:
            raise FileError(file, say("has no header of safetensors"))
        header = json_value(stream.read(length), file)
    if not isinstance(header, dict):
        raise FileError(file, say("has no header of safetensors"))
    counts = Counter(
        str(each.get("dtype"))
        for each in header.values()
        if isinstance(each, dict) and "dtype" in each
    )
    return _NAMES.get(counts.most_common(1)[0][0]) if counts else None
