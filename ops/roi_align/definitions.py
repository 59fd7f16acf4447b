"""RoI align: bins of boxes filled with the mean of samples between four pixels."""

from npusim.operators.definition import Operator, family

# fmt: off
OPERATORS = family("roi_align", kernel=(Operator("ROIAlign", kernel="roi_align"),))
