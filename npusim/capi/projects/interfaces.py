"""The C functions of a project's aclnn interfaces: headers and a library beside the plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.capi import phases
from npusim.capi.compiling import FUNCTIONS, INCLUDE, compile_c_library
from npusim.capi.declarations import header_name, parameters_of, project_header

if TYPE_CHECKING:
    from npusim.operators.definition import Aclnn


def write_interfaces(interfaces: Mapping[str, Aclnn], folder: Path) -> None:
    """Writes ``include/aclnn_NAME.h`` of each interface, and the library with their functions."""
    headers = folder / INCLUDE
    headers.mkdir()
    own = {name: parameters_of(each) for name, each in interfaces.items()}
    for name, parameters in own.items():
        file = headers / header_name(name)
        file.write_text(project_header(name, parameters), encoding="utf-8")
    source = folder / "functions.c"
    source.write_text(phases.functions_of(own), encoding="utf-8")
    compile_c_library(source, folder / FUNCTIONS)
    source.unlink()
