"""Elementwise arithmetic with broadcasting, and fills."""

PROVIDES = {
    "Add": "kernel:Add",
    "Sub": "kernel:Sub",
    "Mul": "kernel:Mul",
    "RealDiv": "kernel:RealDiv",
    "OnesLike": "kernel:OnesLike",
    "Fill": "kernel:Fill",
    "MemSet": "kernel:MemSet",
}
ALIASES: dict[str, str] = {}
