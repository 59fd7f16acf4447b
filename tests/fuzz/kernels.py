"""Kernels of one's own, in Python and C++, with a line or a word that isn't as it was."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

_Dice = random.Random
_PYTHON = """\
import numpy as np
import npusim
from npusim.ascendc import FLOAT, FLOAT16, INT32, CmpMode, TBuf, TPosition, TQue

TILE, TURNS = 64, 3

@npusim.kernel
def own(core, x, z):
    into, out = TQue(TPosition.VECIN, 2, "into"), TQue(TPosition.VECOUT, 2, "out")
    held = TBuf("held")
    core.pipe.init_buffer(into, 2, TILE * 4)
    core.pipe.init_buffer(out, 2, TILE * 4)
    core.pipe.init_buffer(held, 1, TILE * 4)
    total = held.get(FLOAT, TILE)
    core.duplicate(total, 0.0)
    first = core.get_block_idx() * TILE * TURNS
    for turn in core.loop(TURNS):
        tile = into.copy_in(x.span(first + turn * TILE, TILE))
        made = out.alloc_tensor(FLOAT, TILE)
        core.muls(made, tile, 2.0)
        core.adds(made, made, 1.0)
        core.add(made, made, tile)
        core.max(made, made, tile)
        into.free_tensor(tile)
        out.copy_out(z.span(first + turn * TILE, TILE), made)

x = np.arange(384, dtype=np.float32)
z = np.zeros(384, np.float32)
device = npusim.Device("CHIP")
print(device.launch(own, x, z, block_dim=2).cycles, z[:9])
"""
_WORDS = (
    "0", "1", "-1", "3", "TILE", "2 * TILE", "10**9", "1.5", "None", "'x'", "x", "z", "tile", "made", "total", "turn", "first",
    "core", "FLOAT16", "INT32", "into", "out", "held", "core.loop", "range", "core.get_block_idx()", "float('nan')", "True", "[]",
)  # fmt: skip
_LINES = (
    "core.sync_all()", "yield core.sync_all()", "core.add(made, total, made)", "core.free_tensor(made)", "into.free_tensor(tile)",
    "break", "x[3] = 1", "core.copy(made, tile)", "made = tile", "raise ValueError", "total = total + 1", "return",
    "core.compare(made, tile, total, CmpMode.LT)", "tile = into.copy_in(x.span(0, TILE))", "own(core, x, z)",
)  # fmt: skip
_TOKEN = re.compile(r"\w+(?:\.\w+)?")


def _changed(dice: _Dice, text: str, words: tuple[str, ...], more: tuple[str, ...]) -> str:
    """A text with a line or two of it doubled, dropped, swapped, added, or with another word."""
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if "own(" in line or "class " in line)
    for _ in range(dice.choice((0, 1, 1, 1, 2))):
        place = dice.randrange(begin, len(lines) - 1)
        act = dice.randrange(8)
        if act == 0:
            del lines[place]
        elif act == 1:
            lines.insert(place, lines[place])
        elif act == 2:
            lines[place], lines[place + 1] = lines[place + 1], lines[place]
        elif act == 3:
            indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
            lines.insert(place, indent + dice.choice(more))
        elif tokens := list(_TOKEN.finditer(lines[place])):
            token = dice.choice(tokens)
            line = lines[place]
            lines[place] = line[: token.start()] + dice.choice(words) + line[token.end() :]
    return "\n".join(lines) + "\n"


def python_kernels(dice: _Dice, made: Any) -> None:
    """A launch of a kernel in Python; errors of the program's own lines are its own affair."""
    source = _PYTHON.replace("CHIP", dice.choice(("910b3", "310p3", "910a")))
    made.files["k.py"] = _changed(dice, source, _WORDS, _LINES).encode()
    made.shown = f"python_kernels {made.seed}"
    made.call = _launch


def _launch() -> None:
    import runpy
    import traceback

    from npusim import NpusimError

    try:
        runpy.run_path("k.py")
    except NpusimError:
        raise
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        if not isinstance(problem, SyntaxError) and not frames[-1].filename.endswith("k.py"):
            raise


_C_WORDS = (
    "0", "1", "-1", "2048", "1 << 30", "x", "z", "tile", "float", "half", "int32_t", "TPosition::VECIN", "GetBlockIdx()", "nullptr",
)  # fmt: skip
_C_LINES = (
    "PipeBarrier<PIPE_ALL>();", "SyncAll();", "*(int*)0 = 1;", "while (true) {}", "exit(3);", "abort();", "return;",
    "int zero = 0; zero = 1 / zero;",
)  # fmt: skip


def cpp_kernels(dice: _Dice, made: Any) -> None:
    """A program with a kernel in C++: compiled, and run if that is possible."""
    if not (shutil.which("c++") or shutil.which("g++")):
        made.words = ["cc", "k.asc"]
        return
    source = Path(__file__).parents[1] / "data" / "ascendc" / "scaled_sum.asc"
    text = _changed(dice, source.read_text(encoding="utf-8"), _C_WORDS, _C_LINES)
    made.files["k.asc"] = text.encode()
    made.shown = f"cpp_kernels {made.seed}"
    made.call = _compiled


def _compiled() -> None:
    from npusim.cli import main

    for words in (["cc", "k.asc", "-o", "k", "--", "-O0"], ["exec", "-s", "910b3", "./k"]):
        try:
            main(words)
        except SystemExit as end:
            if end.code:
                return
