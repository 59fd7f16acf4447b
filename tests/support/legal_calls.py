"""A legal call of every aclnn interface, described and not filled, by its row of references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np

from npusim import TensorSpec
from npusim.operators.registry import standard_names
from npusim.operators.resolve import resolve
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import NpusimError
from support.references import rows
from support.references.calls import called_by, spelled
from support.references.row import SIZES, Draw, bounded, dtypes_of

_USUAL = ("FLOAT", "FLOAT16")  # what every product computes with


class Seeded(Draw):
    """Chooses by a seeded generator, usual dtypes, and no axis without elements."""

    def __post_init__(self) -> None:
        self.random = Random(self.api)  # noqa: S311 - calls, no secrets
        self.rng = np.random.default_rng(self.random.randrange(2**32))

    def one_of(self, *options: Any) -> Any:
        return self.random.choice(options)

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shape(self, low: int = 0, high: int = 8, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        count = self.random.randint(max(low, min(2, high)), max(low, min(4, high)))
        return bounded([self.random.choice([size for size in sizes if size]) for _ in range(count)])

    def dtype(self, parameter: str, among: Sequence[str] = ()) -> str:
        listed = dtypes_of(self.api, self.renamed.get(parameter, parameter), self.family)
        allowed = [each for each in listed if not among or each in among]
        self.kind = next((each for each in _USUAL if each in allowed), "")
        return self.kind or super().dtype(parameter, among)

    def axes(self, rank: int, *, some: bool = False) -> list[int]:
        return [self.whole(0, rank - 1)] if rank or some else []


@cache
def legal_calls(family: str) -> dict[str, dict[str, Any]]:
    """The arguments of a call by interface; those without a way to make one are left out."""
    return dict(_calls(family))


def _calls(family: str) -> Iterator[tuple[str, dict[str, Any]]]:
    made = {row.api: row for each in rows().values() for row in each}
    for api in (name for name in standard_names() if name.startswith("aclnn")):
        try:
            if api in made and made[api].given:
                found = called_by(made[api], Seeded(_never, api, family)).arguments
            elif api in made:
                found = dict(spelled(dict(made[api].make(Seeded(_never, api, family)))))
            elif (typical := resolve(api, {}).typical) is not None:
                found = typical.in_dtype(FLOAT16)
            else:
                continue
        except (ImportError, NpusimError):  # a reference of torch, a name that says too little
            continue
        yield (
            api,
            {
                name: TensorSpec.of(value) if isinstance(value, np.ndarray) else value
                for name, value in found.items()
            },
        )


def _never(strategy: Any) -> Any:
    raise AssertionError(strategy)
