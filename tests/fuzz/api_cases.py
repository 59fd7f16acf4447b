"""Calls of the Python API with whatever a program may hold."""

from __future__ import annotations

import random
import reprlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import odd

_Dice = random.Random
_SIGNATURE = ("argument", "positional", "keyword")  # words of Python's own refusal of a call


class _Text(str):
    __slots__ = ()


class _Whole(int):
    pass


class _Array(np.ndarray[Any, Any]):
    pass


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def _deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    return found


def _read_only() -> Any:
    array = np.ones((2, 3), "f4")
    array.flags.writeable = False
    return array


OBJECTS: tuple[Callable[[], Any], ...] = (
    lambda: np.float32(1.5), lambda: np.int64(3), lambda: np.bool_(True), lambda: np.str_("fp16"),
    lambda: np.float64("nan"), lambda: np.datetime64("2001-01-01"), lambda: np.void(b"ab"),
    lambda: np.array(1.0, "f2"), lambda: np.array([None, "a", 3], object), lambda: np.array(["a", "b"]),
    lambda: np.ones((2, 3), ">f4"), lambda: np.ones((2, 3), ">i8"), _read_only, lambda: np.ones((2, 3), "f4")[::-1],
    lambda: np.ones((4, 6), "f4")[:, ::2], lambda: np.ones((2, 3), "f4").view(_Array),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]), lambda: np.zeros(3, "f4,i4"),
    lambda: np.zeros(3, "M8[s]"), lambda: np.zeros(3, "m8[s]"), lambda: np.zeros((0, 3), "f4"),
    lambda: np.broadcast_to(np.float32(1), (2**20, 2**20)), lambda: np.broadcast_to(np.float16(1), (5, 7)),
    lambda: np.lib.stride_tricks.sliding_window_view(np.ones(9, "f4"), 4), lambda: np.ones((1,) * 30, "f4"),
    lambda: np.frombuffer(b"\0" * 25, "f4", 6, 1), lambda: np.zeros((2, 3), "g"), lambda: np.zeros(2, "G"),
    lambda: np.zeros(4, "V2"), lambda: np.zeros(4, "V3"), lambda: np.zeros(3, {"names": ["a"], "formats": ["f4"], "itemsize": 10})["a"],
    lambda: Fraction(1, 3), lambda: Decimal("1.5"), lambda: 1j, lambda: b"fp16[4]", lambda: bytearray(b"ab"),
    lambda: memoryview(b"abcd"), lambda: range(3), lambda: {1, 2}, lambda: frozenset({1}), lambda: {1: 2},
    lambda: (n for n in (1, 2)), lambda: print, lambda: int, lambda: np, lambda: ..., lambda: NotImplemented,
    lambda: _Text("fp16[2,3]"), lambda: _Whole(2), _endless, _deep, lambda: Path("x"), object,
    lambda: _spec((2, 3), "fp32"), lambda: [_spec((2, 3), "fp32")] * 3, lambda: (np.ones(2, "f4"), None),
    lambda: _spec((3, 2), "fp16", strides=(1, 3)), lambda: _spec((2, 2), "fp16", strides=(0, 0)),
    lambda: [1.0, 2.0], lambda: [True, "x"], lambda: [[1, 2], [3]], lambda: "fp16[2,3]", lambda: (2, 3),
    lambda: 2**70, lambda: [2**70], lambda: -1, lambda: 1e308, lambda: "float32", lambda: np.float16, lambda: np.dtype("f4"),
)  # fmt: skip


def _spec(*given: Any, **named: Any) -> Any:
    from npusim import TensorSpec

    return TensorSpec(*given, **named)


def thing(dice: _Dice) -> Any:
    """Any object."""
    return dice.choice(OBJECTS)() if dice.random() < 0.7 else odd.value(dice)


@cache
def _calls() -> tuple[tuple[str, Mapping[str, Any]], ...]:
    a, b = np.ones((2, 3), "f4"), np.ones((3, 4), "f4")
    return (
        ("aclnnRelu", {"self": a}),
        ("aclnnMatmul", {"self": a, "mat2": b, "cubeMathType": 1}),
        ("Add", {"x1": a, "x2": a}),
        ("Softmax", {"x": a, "axes": [1]}),
        ("ConcatD", {"x": [a, a], "concat_dim": 0}),
        ("ReduceSumD", {"x": a, "axes": [0], "keep_dims": True}),
        ("Cast", {"x": a, "dst_type": 1}),
        ("GatherV2D", {"x": a, "indices": np.array([0, 1], "i4"), "axis": 0}),
        ("TransposeD", {"x": a, "perm": [1, 0]}),
        ("BinaryCrossEntropyBackward",
         {"gradOutput": a, "self": a, "target": a, "weightOptional": None, "reduction": 0}),
        ("GroupNormBackward",
         {"gradOut": np.ones((2, 4, 3), "f4"), "input": np.ones((2, 4, 3), "f4"), "mean": np.ones((2, 2), "f4"),
          "rstd": np.ones((2, 2), "f4"), "gamma": None, "N": 2, "C": 4, "HxW": 3, "group": 2,
          "outputMask": [True, True, True]}),
    )  # fmt: skip


def _operator(dice: _Dice, used: list[Any]) -> object:
    """A proper call with some of its values replaced, by all the ways there are to make it."""
    from npusim import Device

    name, proper = dice.choice(_calls())
    arguments: dict[str, Any] = dict(proper)
    for _ in range(dice.choice((1, 1, 2))):
        arguments[dice.choice([*arguments, "out", "y", "stream", "assume"])] = thing(dice)
    way = dice.choice(("run", "run", "estimate", "check", "two phases", "stream"))
    used[:] = [way, name, arguments]
    device = Device("910b3")
    if way == "two phases":
        stream = device.create_stream()
        size, executor = device.get_workspace_size(name, **arguments)
        stream.execute(*dice.choice(((None, size, executor), (3, size, executor))))
        return stream.synchronize()
    if way == "stream":
        stream = device.create_stream()
        return [device.run(name, **{**arguments, "stream": stream}) for _ in range(2)]
    result = getattr(device, way)(name, **arguments)
    return [str(result)[:100], repr(result)[:100]]


def _description(dice: _Dice, used: list[Any]) -> object:
    from npusim import TensorSpec

    way = dice.choice(("new", "of", "recast", "device", "options", "profile", "execute", "slices"))
    a, b, c = (thing(dice) for _ in range(3))
    used[:] = [way, a, b, c]
    if way == "new":
        strides = dice.choice(({}, {"strides": b}, {"offset": b}, {"strides": b, "offset": c}))
        made = TensorSpec(a, dice.choice(("fp16", c)), **strides)
        return [made.numel, made.nbytes, made.is_contiguous, made.storage_bytes, str(made)[:99]]
    if way == "of":
        return str(TensorSpec.of(a, **dice.choice(({}, {"dtype": b}, {"format": b}))))
    if way == "recast":
        return TensorSpec((2,), "fp16").recast(TensorSpec((2,), a).dtype)
    return _of_device(way, a, b, c)


def _of_device(way: str, a: Any, b: Any, c: Any) -> object:
    from npusim import Device, load_profile

    if way == "device":
        return Device(a).profile.name
    if way == "options":
        return Device("910b3", exact=a, l2=b).estimate("aclnnRelu", self="fp16[4]").cycles
    if way == "profile":
        return load_profile(a).provenance_of("memory.l2_gbps")
    if way == "execute":
        return Device("910b3").create_stream().execute(a, b, c)
    result = Device("910b3").estimate("aclnnRelu", self="fp16[64]")
    return len(list(result.timeline.slices({reprlib.repr(a)}))) if result.timeline else None


def api_objects(dice: _Dice, made: Any) -> None:
    """A call of the API; how exactly is drawn when it runs."""
    state = dice.getrandbits(64)
    used: list[Any] = []

    def call() -> object:
        own = _Dice(state)
        try:
            return (_operator if own.random() < 0.75 else _description)(own, used)
        except TypeError as refusal:
            if any(word in str(refusal) for word in _SIGNATURE) and not _inside(refusal):
                return None
            print(_shown(used))
            raise
        except Exception as problem:
            _say(problem, used)
            raise

    made.call = call
    made.shown = f"objects {state}"


def _shown(used: list[Any]) -> str:
    """What a call was made with, however deep it is."""
    return " ".join(map(reprlib.repr, used))


def _inside(problem: BaseException) -> bool:
    """Whether it was raised within the package, rather than at its door."""
    place, files = problem.__traceback__, []
    while place is not None:
        files.append(place.tb_frame.f_code.co_filename)
        place = place.tb_next
    return "/fuzz/" not in files[-1]


def _say(problem: Exception, used: list[Any]) -> None:
    from npusim import NpusimError

    if not isinstance(problem, NpusimError):
        import sys

        sys.stderr.write(f"{_shown(used)}\n")
