"""Rows at places that data tells: gathered, scattered, added up; and places turned into ones."""

_TABLES = {
    "gather": ("Embedding", "GatherNd", "GatherV2", "GatherV2D"),
    "one_hot": ("OneHot", "OneHotD"),
    "scatter": (
        "InplaceIndexAdd",
        "ScatterAdd",
        "ScatterNdAdd",
        "ScatterNdUpdate",
        "ScatterUpdate",
        "UnsortedSegmentSumD",
    ),
}

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
PROVIDES["UnsortedSegmentSum"] = "scatter:unsorted_segment_sum"
PROVIDES["Gather"] = "gather:gather"
PROVIDES["GatherElements"] = "elements:gather_elements"
PROVIDES["ScatterElements"] = "elements:scatter_elements"
PROVIDES["Scatter"] = "elements:scatter_elements"
PROVIDES["Index"] = "elements:index_elements"
PROVIDES["IndexAdd (torch.index_add)"] = "scatter:InplaceIndexAdd"
ALIASES: dict[str, str] = {}
