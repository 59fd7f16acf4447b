"""Copies between layouts: what makes tensors contiguous, spreads them out, and writes strided outputs."""

PROVIDES = {
    "AsStrided": "strided:AsStrided",
    "BroadcastTo": "strided:BroadcastTo",
    "Slice": "strided:Slice",
    "StridedSlice": "strided:StridedSlice",
    "TransData": "trans_data:TransData",
    "Transpose": "strided:Transpose",
    "ViewCopy": "strided:ViewCopy",
}
ALIASES: dict[str, str] = {}
