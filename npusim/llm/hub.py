"""Where a model's config lies: a file, a folder, or what a hub's cache holds of an id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from npusim.reading.files import kind_of
from npusim.values.errors import FileError
from npusim.values.language import say

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
CONFIG: Final = "config.json"


def is_id(text: str) -> bool:
    """Whether a text may be the id of a model on a hub, and names no place on this machine."""
    return bool(_ID.fullmatch(text)) and not text.endswith((".json", ".yaml", ".yml", ".onnx"))


def config_file(path: Path | str) -> tuple[Path, str]:
    """The file of a model's config, with what the model is called.

    Raises FileError for an id that no cache on this machine holds, and says what to download.
    """
    file, text = Path(path), str(path)
    kind = kind_of(file)
    if kind == "folder":
        return file / CONFIG, file.name or file.resolve().name
    if not kind and is_id(text):
        for place in _cached(text):
            if (place / CONFIG).is_file():
                return place / CONFIG, text.rpartition("/")[2]
        raise FileError(
            text,
            say(
                "no file or folder; as the id of a model on a hub it isn't in this machine's cache"
            ),
            say("Only its {config} is needed: hf download {text} {config}, and ask again.").format(
                config=CONFIG, text=text
            ),
        )
    return file, (file.parent.name if file.name == CONFIG else file.stem)


def _cached(text: str) -> Iterator[Path]:
    """Folders in which the caches of Hugging Face and ModelScope would keep a model."""
    home = Path.home()
    root = Path(os.environ.get("HF_HOME", home / ".cache" / "huggingface")) / "hub"
    hub = Path(os.environ.get("HF_HUB_CACHE", root))
    kept = hub / ("models--" + text.replace("/", "--")) / "snapshots"
    with suppress(OSError):
        yield from sorted(kept.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    scope = Path(os.environ.get("MODELSCOPE_CACHE", home / ".cache" / "modelscope" / "hub"))
    owner, _, name = text.partition("/")
    for folder in (scope / "models", scope):
        yield folder / owner / name.replace(".", "___")
