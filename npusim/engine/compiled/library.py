"""Finds the compiled player and says once where there is none."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from npusim.engine.compiled.layout import KernelStruct, ResultStruct

_NAMES = ("_player.so", "_player.dylib", "_player.dll")
_OFF = "NPUSIM_NO_COMPILED"


@cache
def library() -> ctypes.CDLL | None:
    """The library with the player; None where it hasn't been built or is switched off."""
    if os.environ.get(_OFF):
        return None
    here = Path(__file__).parent
    try:
        loaded = ctypes.CDLL(str(next(here / name for name in _NAMES if (here / name).exists())))
    except (StopIteration, OSError):  # it wasn't built, or for another machine
        import logging

        logging.getLogger("npusim").warning(
            "the compiled player is missing: kernels are played by SimPy, which takes far longer. "
            "It is built where npusim is installed beside a C compiler (%s=1: no warning)",
            _OFF,
        )
        return None
    loaded.npusim_begin.argtypes = (ctypes.POINTER(KernelStruct), ctypes.POINTER(ResultStruct))
    loaded.npusim_begin.restype = ctypes.c_void_p
    loaded.npusim_go.argtypes = (ctypes.c_void_p,)
    loaded.npusim_go.restype = ctypes.c_int
    loaded.npusim_end.argtypes = (ctypes.c_void_p,)
    loaded.npusim_end.restype = None
    return loaded
