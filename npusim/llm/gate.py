"""What a config's numbers must be before anybody reckons with them: whole, and no more than some.

Readers of an architecture then only ask whether a number is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from npusim.values.errors import FileError, brief
from npusim.values.language import say

if TYPE_CHECKING:
    from pathlib import Path

_COUNTED: Final = re.compile(r"(num|n)_\w+|\w+_(size|dim|rank)")
_FACTORS: Final = ("rope_scaling", "rope_parameters")
"""Mappings of factors, whatever their names end in (DeepSeek-V3's ``mscale_all_dim`` is 1.0)."""
_MOST: Final = 1 << 24


def check_numbers(raw: Mapping[str, Any], file: Path) -> None:
    """Raise FileError for a size or count that isn't a whole number or a list of them (or null).

    Sizes and counts are what their names say (``num_...``, ``..._size``). Others may be without
    end (NemotronH's ``time_step_limit``), but numbers.
    """
    for where, problem in _problems(raw, ""):
        raise FileError(file, f"{where} is {problem}", say("Take the config as it was published."))


def _problems(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            place = f"{where}.{key}" if where else str(key)
            factors = where.rpartition(".")[2] in _FACTORS
            if _COUNTED.fullmatch(str(key)) and not isinstance(each, Mapping) and not factors:
                yield from _uncounted(each, place)
            else:
                yield from _problems(each, place)
    elif isinstance(value, list):
        for each in value:
            yield from _problems(each, where)
    elif isinstance(value, float) and isnan(value):
        yield where, say("{value}: no number").format(value=value)


def _uncounted(value: Any, where: str) -> Iterator[tuple[str, str]]:
    for each in value if isinstance(value, list) else [value]:
        if each is not None and (isinstance(each, bool) or not isinstance(each, int)):
            yield where, say("{each}: no whole number").format(each=brief(each))
        elif each is not None and abs(each) > _MOST:
            yield where, say("{each}: more than {most:,}").format(each=brief(each), most=_MOST)
