"""What else a launch could be given: each is compiled and played, and its numbers compared.

Other values of constants that look like sizes of blocks, programs in a loop on each core, buffers
that aren't doubled. A constant that means something else changes the numbers, and isn't told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from math import prod
from typing import Any

from npusim.pyasc.session import session
from npusim.runtime.what_if import Suggestion
from npusim.triton import grouping
from npusim.triton.launching import cores_for, whole_storage

_DONE = "_npusim_advises"
_MOST = 4  # that are told of a launch
_WORTH = 0.01  # of the time
_MOST_BYTES = 1 << 28  # of tensors that are kept to compare them
_SMALLEST, _LARGEST = 16, 1 << 16  # of a constant that may be the size of a block
_CLOSE = {"rtol": 1e-2, "equal_nan": True}

_asked: list[set[object]] = []  # launches that have been looked at, where somebody asks


@dataclass(frozen=True, slots=True)
class _Other:
    """A launch with something changed."""

    change: str
    grid: Any
    named: Mapping[str, Any]
    grouped: bool = False
    with_grid: str = ""


@contextmanager
def advising() -> Iterator[None]:
    """Launches inside are tried otherwise, too: the first of each kernel with its arguments."""
    _asked.append(set())
    try:
        yield
    finally:
        _asked.pop()


def watch(jit_function: Any) -> None:
    """Lets a class of kernels' functions be advised where somebody asks for it."""
    if getattr(jit_function, _DONE, False):
        return
    original = jit_function.run

    def run(self: Any, *given: Any, grid: Any, warmup: Any, **named: Any) -> Any:
        if not _asked or warmup:
            return original(self, *given, grid=grid, warmup=warmup, **named)
        settings = dict(zip(self.arg_names, given, strict=False)) | named
        launch = partial(original, self, warmup=False)
        return _Launched(self, settings, grid, launch).run()

    jit_function.run = run
    setattr(jit_function, _DONE, True)


class _Launched:
    """One launch, which is repeated with changes."""

    def __init__(
        self, function: Any, settings: dict[str, Any], grid: Any, launch: Callable[..., Any]
    ) -> None:
        self._function, self._settings, self._grid, self._launch = function, settings, grid, launch
        tensors = [each for each in settings.values() if hasattr(each, "data_ptr")]
        self._memories = {each.data_ptr(): whole_storage(each) for each in tensors}
        self._key = (function.fn.__name__, *map(_described, settings.values()))

    def run(self) -> Any:
        """The launch itself; what its variants took is told of it."""
        asked, done = _asked.pop(), session().launched
        count = len(done)
        known = self._key in asked or sum(map(_nbytes, self._memories.values())) > _MOST_BYTES
        try:
            before = {} if known else self._kept()
            result = self._launch(grid=self._grid, **self._settings)
            if len(done) > count and not known:
                asked.add(self._key)
                advice = [str(each) for each in self._faster(before, done[count].result)]
                del done[count + 1 :]
                done[count] = replace(done[count], advice=tuple(advice[:_MOST]))
        finally:
            _asked.append(asked)
        return result

    def _kept(self) -> dict[int, Any]:
        return {place: each.clone() for place, each in self._memories.items()}

    def _put(self, numbers: Mapping[int, Any]) -> None:
        for place, each in self._memories.items():
            each.copy_(numbers[place])

    def _faster(self, before: Mapping[int, Any], result: Any) -> list[Suggestion]:
        """What takes less time and leaves the same numbers, the fastest first."""
        right, took_us = self._kept(), result.duration_us
        found: dict[str, Suggestion] = {}
        for other in self._others():
            self._put(before)
            here_us = self._played(other)
            best_us = found[other.change].after_us if other.change in found else took_us
            if here_us < min(best_us, (1 - _WORTH) * took_us) and self._is_same(right):
                told = f"{other.change}{other.with_grid}"
                found[other.change] = Suggestion(told, "", took_us, here_us)
        self._put(right)
        return sorted(found.values(), key=lambda each: each.after_us)

    def _played(self, other: _Other) -> float:
        """Microseconds of a variant; infinitely many where the chip or the compiler refuses it."""
        done, kept = session().launched, os.environ.get(grouping.VARIABLE)
        count = len(done)
        if other.grouped:
            os.environ[grouping.VARIABLE] = "1"
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                self._launch(grid=other.grid, **other.named)
        except Exception:  # noqa: BLE001 - of whoever compiles it; then it's no advice
            return float("inf")
        finally:
            os.environ.pop(grouping.VARIABLE, None)
            if kept is not None:
                os.environ[grouping.VARIABLE] = kept
        return done[-1].result.duration_us if len(done) > count else float("inf")

    def _is_same(self, right: Mapping[int, Any]) -> bool:
        return all(_close(each, right[place]) for place, each in self._memories.items())

    def _others(self) -> Iterator[_Other]:
        grid = self._grid(self._settings) if callable(self._grid) else self._grid
        cores = cores_for(session().device.profile, products=False)
        if not grouping.is_asked() and prod(grid) > cores:
            told = f"{grouping.VARIABLE}=1, programs in a loop on each core"
            yield _Other(told, self._grid, self._settings, grouped=True)
        if self._settings.get("multibuffer") is not False:
            yield _Other("multibuffer=False", self._grid, self._settings | {"multibuffer": False})
        for param in self._function.params:
            value: Any = self._settings.get(param.name)
            if param.is_constexpr and _is_size(value):
                for size in (value // 2, value * 2, value * 4, value * 8):
                    yield from self._sized(param.name, value, size, grid)

    def _sized(self, name: str, value: int, size: int, grid: Sequence[int]) -> Iterator[_Other]:
        """Another size of a block, with the grids that may go with it."""
        named = self._settings | {name: size}
        told = f"{name}={size} instead of {value}"
        if callable(self._grid):
            yield _Other(told, self._grid, named)
            return
        for axis in range(len(grid)):
            if grid[axis] > 1:
                programs = -(-grid[axis] * value // size)
                other = (*grid[:axis], programs, *grid[axis + 1 :])
                yield _Other(told, other, named, with_grid=f", grid {other}")
        yield _Other(told, grid, named)


def _is_size(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return _SMALLEST <= value <= _LARGEST and not value & (value - 1)


def _described(value: Any) -> object:
    if hasattr(value, "data_ptr"):
        return tuple(value.shape), str(value.dtype)
    return value if isinstance(value, int | float | str | bool) else str(value)


def _nbytes(memory: Any) -> int:
    return int(memory.numel() * memory.element_size())


def _close(found: Any, right: Any) -> bool:
    """Whether numbers are the same but for the order in which sums were rounded."""
    torch: Any = __import__("torch")
    if not right.is_floating_point():
        return bool(torch.equal(found, right))
    wide, wanted = found.double(), right.double()
    largest = wanted[torch.isfinite(wanted)].abs().max().item() if wanted.numel() else 0.0
    return bool(torch.allclose(wide, wanted, atol=1e-3 * largest, **_CLOSE))
