"""Files as Ascend's own profilers write them: msopprof's folder, msprof's operator summary."""

from npusim.reporting.msprof.folder import MsprofFolder, checked_timestamp, write_folder
from npusim.reporting.msprof.summary import (
    SummaryTask,
    claim_op_summary,
    in_order,
    op_statistic,
    op_summary,
    write_op_summary,
)

__all__ = [
    "MsprofFolder",
    "SummaryTask",
    "checked_timestamp",
    "claim_op_summary",
    "in_order",
    "op_statistic",
    "op_summary",
    "write_folder",
    "write_op_summary",
]
