"""Lists of tensors and tiling data: what a core reads of them before it can begin.

Source: ops-nn foreach/foreach_utils, kernel_foreach_base.h; public operator sources of TransData
(_get_tiling_params of trans_data_positive_source_tc.py and its like).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.ascendc import Core

_LINES_OF_A_LIST = 2  # where the descriptor says that addresses are, and the tensor's address


def read_lists(core: Core, lists: int, arrays: int) -> None:
    """Read so many lists' descriptors and arrays of the tiling data, each a line of its own.

    Arrays have sizes of the tensors, and of every core its first and last one and places in them.
    """
    core.load_lines(_LINES_OF_A_LIST * lists + arrays)


def read_parameters(core: Core, count: int) -> None:
    """Bring ``count`` numbers of tiling data into UB, and take them from there one by one."""
    core.load_lines(1)
    core.emit_scalar("ld_ub", loads=count)
