"""Copies between layouts: what makes tensors contiguous, spreads them, writes strided outputs."""

_TABLES = {
    "joining": ("Concat", "ConcatD", "ConcatV2", "ConcatV2D", "Pack"),
    "layouts": ("TransData",),
    "padding": ("Pad", "PadD", "PadV3", "StridedSliceGrad"),
    "permuting": ("ConfusionTransposeD", "Transpose", "TransposeD", "TransposeNOD"),
    "slicing": ("Slice", "SliceD", "StridedSlice", "StridedSliceD"),
    "spreading": ("BroadcastTo", "BroadcastToD", "Expand", "ExpandD", "Tile", "TileD"),
    "splitting": ("Split", "SplitD", "SplitV", "SplitVD", "Unpack"),
    "strided": ("AsStrided", "ViewCopy"),
}

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
ALIASES: dict[str, str] = {}
