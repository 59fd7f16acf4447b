"""Images brought to another size: nearest pixels and their gradient, and between four pixels."""

_TABLES = {
    "bilinear": ("ResizeBilinearV2", "SyncResizeBilinearV2"),
    "nearest": (
        "ResizeNearestNeighbor",
        "ResizeNearestNeighborV2",
        "ResizeNearestNeighborV2D",
        "UpsampleNearest2d",
    ),
    "nearest_grad": (
        "ResizeNearestNeighborGrad",
        "ResizeNearestNeighborV2Grad",
        "ResizeNearestNeighborV2GradD",
    ),
}

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
PROVIDES["ResizeBilinear"] = "bilinear:resize_bilinear"
ALIASES: dict[str, str] = {}
