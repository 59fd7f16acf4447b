"""The rooms of the house and what they import, read from the code: `python docs/house.py`.

Writes docs/house.svg. The tests hold the same order (tests/house/test_imports.py).
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent

# From top to bottom: a room imports only from rooms above it.
ROOMS = (
    "values",
    "reading",
    "hardware",
    "catalogue",
    "engine",
    "cluster",
    "ascendc",
    "schedules",
    "library",
    "operators",
    "ops",
    "runtime",
    "validation",
    "graph",
    "model",
    "llm",
    "capacity",
    "serving",
    "reporting",
    "sweeping",
    "pyasc",
    "triton",
    "capi",
    "cli",
)
LEVEL = {room: level for level, room in enumerate(ROOMS)}

# The modules of a room that others may import, beside the room itself. Everything else is its own.
DOORS = {
    "ops": "convolution.geometry",
    "values": """
        arithmetic contents display drawing dtypes errors formats garbage guard host language
        layouts locks plotted promotion signals sites spelling status suggest takes templates
        tensors version
        """,
    "reading": "arrays files kept limits markup run_store tables",
    "hardware": """
        execution families groups interconnect loading naming numbers products profile provenance
        reading residuals
        """,
    "catalogue": "facts families judging names operators queries question verdicts wording",
    "engine": "arrows claims clock program schedule sharing simulate timeline verdict",
    "ascendc": """
        allowance ai_cpu checked cluster conversions core costs decorated events flat.compute
        flat.copies flat.launching flat.listings flat.memory flat.queues flat.spans flat.station
        folds gm gm_slices intrinsics.copy intrinsics.elementwise intrinsics.vector kernel loops
        mistakes packets queues rounding scalars task tensors tile_states tracing windows
        """,
    "schedules": """
        block_split bounds buffers comparisons elementwise formula formula_classes formula_kernel
        formula_row functions masks on_ai_cpu streamed rows.folds rows.formats rows.formula
        rows.kernel rows.layouts rows.play rows.program rows.shares runner split_grid spreading
        tile_grid
        """,
    "library": """
        asking axis_maps block_matmul block_order calls epilogue interleaved mapping matmul
        matmul_cores matmul_product matmul_tiling operands packed_scales phases repeated
        row_quantiser sorted_pairs tensor_lists unfolded
        """,
    "operators": """
        arguments checks conditions contract coverage definition dtype_checks folders fusions host
        listed memory norm_checks number_checks oracle registry resolve results shape_checks slots
        task_chain tasks
        """,
    "runtime": """
        bands cache_start call device explain figures grids listening ranking results stream task
        timeline what_if work
        """,
    "validation": "asking fitting replay roofline schedules statistics table work",
    "graph": """
        aten.mapping aten.reader compiling custom lowering memory network onnx_file onnx_reader
        passes target
        """,
    "model": """
        cache_state calibrating changes checking curve findings graph_model judging model
        not_simulated profile_files profile_table reading reasons repeats results retiming
        significance step streams timing waits
        """,
    "cluster": "collectives",
    "llm": """
        architecture config engines layout memory precision results step training workload
        """,
    "capacity": "asking boards deciding estimate plan plan_parts results sizing traces units",
    "serving": "asking deployment engine options plan planning policy requests results",
    "reporting": """
        against arrays asking calibration call.answers call.page call.tables call.typical
        catalogue cluster compare comparison coverage csvfile curve document explain files llm
        llm_figures llm_pages llm_plan matrix model msprof msprof.step network network_trace
        operators plan.data plan.page profiled profiles renderers.html renderers.jsonout
        renderers.terminal schedules schemas serving side_by_side spelling sweep sweep_figures
        trace training
        validation
        """,
    "sweeping": "asking cluster executors points results running spec working",
    "triton": "programs tuning",
    "pyasc": "answering enums import_hooks running session tensors tilings tuning values",
    "capi": """
        compiling library projects.building projects.definitions python_program running table
        tracing tuning
        """,
}


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the product by its installed name."""
    found = {}
    for folder, package in (("npusim", "npusim"), ("ops", "npusim.ops")):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            names = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *names))] = file
    return found


def room_of(module: str) -> str | None:
    """The room of `npusim.room.module`; None for the doors (npusim, npusim.__main__)."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LEVEL else None


@cache
def imports(file: Path) -> tuple[tuple[str, int], ...]:
    """Every module that a file imports, at its top, in a function or for types, with the line."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            # By its name is an import as well, where the name is written there.
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield str(name.value), node.lineno
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module, node.lineno
            for name in node.names:
                yield f"{module}.{name.name}", node.lineno


@cache
def graph() -> Mapping[str, frozenset[str]]:
    """The modules that each module imports; a package only where its own names are used."""
    known = modules()
    found = {}
    for module, file in known.items():
        named = {name for name, _ in imports(file) if name in known}
        parents = {
            name
            for name in named
            if any(other.startswith(f"{name}.") for other in named)
            and not _uses_own_names(file, name, known)
        }
        found[module] = frozenset(named - parents - {module})
    return found


def _uses_own_names(file: Path, package: str, known: Mapping[str, Path]) -> bool:
    """True when a file takes something from a package that is no module of it."""
    return any(
        name.startswith(f"{package}.") and name.count(".") == package.count(".") + 1
        for name, _ in imports(file)
        if name not in known and not any(name.startswith(f"{each}.") for each in _inside(package))
    )


@cache
def _inside(package: str) -> tuple[str, ...]:
    return tuple(name for name in modules() if name.startswith(f"{package}."))


def beside_doors() -> list[str]:
    """Imports of a room's module that is no door, as sentences."""
    found = []
    for module, others in graph().items():
        for other in others:
            room = room_of(other)
            if room is None or room == room_of(module):
                continue
            doors = {f"npusim.{room}.{name}" for name in DOORS.get(room, "").split()}
            if other not in doors | {f"npusim.{room}"}:
                found.append(f"{module} imports {other}, which is no door of {room}")
    return sorted(found)


def circles() -> list[tuple[str, ...]]:
    """Groups of modules that import each other (strongly connected components), sorted."""
    return sorted(_Components(graph()).found)


class _Components:
    """Tarjan's algorithm."""

    def __init__(self, edges: Mapping[str, frozenset[str]]) -> None:
        self._edges = edges
        self._index: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._stack: list[str] = []
        self.found: list[tuple[str, ...]] = []
        for node in sorted(edges):
            if node not in self._index:
                self._visit(node)

    def _visit(self, node: str) -> None:
        self._index[node] = self._low[node] = len(self._index)
        self._stack.append(node)
        for other in sorted(self._edges[node]):
            if other not in self._index:
                self._visit(other)
                self._low[node] = min(self._low[node], self._low[other])
            elif other in self._stack:
                self._low[node] = min(self._low[node], self._index[other])
        if self._low[node] == self._index[node]:
            place = self._stack.index(node)
            group, self._stack = self._stack[place:], self._stack[:place]
            if len(group) > 1:
                self.found.append(tuple(sorted(group)))


def draw(target: Path) -> None:
    """The picture: a row for each room, and a dot for each room that it imports from."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "npusim"
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    count = Counter(
        (room_of(module), room_of(other)) for module, others in graph().items() for other in others
    )
    figure, axes = plt.subplots(figsize=(13, 0.5 * len(ROOMS) + 1.2))
    for row, room in enumerate(ROOMS):
        files = [file for name, file in modules().items() if room_of(name) == room]
        lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files)
        axes.text(-0.5, row, room, ha="right", va="center", weight="bold", family="monospace")
        axes.text(len(ROOMS) + 0.3, row, _about(room), va="center", fontsize=9)
        size = f"{len(files)} files, {lines / 1000:.1f}k lines"
        axes.text(-4.0, row, size, ha="right", va="center", fontsize=8, color="gray")
        axes.axhline(row + 0.5, color="lightgray", linewidth=0.4)
        for column, other in enumerate(ROOMS):
            times = count[room, other]
            if times and room != other:
                axes.scatter(column, row, s=12 + 4 * times, color="tab:blue", linewidths=0)
    axes.plot([-0.5, len(ROOMS) - 0.5], [-0.5, len(ROOMS) - 0.5], color="gray", linewidth=0.8)
    axes.set_xlim(-8.5, len(ROOMS) + 14)
    axes.set_ylim(len(ROOMS) - 0.5, -2.6)
    for column, room in enumerate(ROOMS):
        axes.text(column, -0.7, room, rotation=60, fontsize=8, family="monospace")
    axes.text(
        -8.5, -2.2, "A room imports from rooms above it: dots stay below the diagonal.", fontsize=9
    )
    axes.axis("off")
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _about(room: str) -> str:
    """The first sentence of a room's docstring."""
    package = "npusim.ops" if room == "ops" else f"npusim.{room}"
    text = ast.get_docstring(ast.parse(modules()[package].read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "house.svg")
