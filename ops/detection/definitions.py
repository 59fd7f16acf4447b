"""Boxes that detectors propose, and which of them stay."""

from npusim.operators.definition import Operator, family, whole

# fmt: off
OPERATORS = family(
    "detection",
    suppression=(
        Operator("NonMaxSuppressionV3",
            "boxes scores max_output_size iou_threshold score_threshold -> selected_indices",
            (whole("offset?"),), kernel="non_max_suppression"),
    ),
)
