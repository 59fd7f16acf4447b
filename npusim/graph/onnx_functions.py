"""Operators of ONNX that its standard defines by others: the device gets what they consist of.

Source: the functions in the operator schemas of the onnx package.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from npusim.graph import onnx_native
from npusim.graph.mapping import RULES
from npusim.operators.registry import has_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

_DOMAIN: Final = "npusim.functions"


def expand(
    model: Any, opset: int, kinds: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> Any:
    """The model without operators that nothing here knows, but that ONNX says by others.

    `opset` is the version of ONNX's operators that the model is of. What depends on the types of
    its inputs waits until they are known.
    """
    found: list[Any] = []
    for node in model.graph.node:
        schema = None if node.domain or _is_known(node.op_type) else _schema(node.op_type, opset)
        if schema is not None and all(name in kinds and name in shapes for name in node.input):
            function = _function(schema, node, opset, kinds, shapes)
            function.name, function.domain = f"{node.op_type}{len(found)}", _DOMAIN
            # Its operators mean the same in the version that the model is of.
            for each in function.opset_import:
                each.version = opset
            _say_defaults(schema, node)
            node.op_type, node.domain = function.name, _DOMAIN
            found.append(function)
    if not found:
        return model
    model.functions.extend(found)
    model.opset_import.add(domain=_DOMAIN, version=1)
    flat = onnx_native.inline_functions(model)
    versions = [each for each in flat.opset_import if each.domain != _DOMAIN]
    del flat.opset_import[:]
    flat.opset_import.extend(versions)
    return flat


def _is_known(op: str) -> bool:
    return op in RULES or has_kernel(op)


@lru_cache(maxsize=256)
def _schema(op: str, opset: int) -> Any | None:
    """The schema of an operator that is a function in this version; None for others."""
    defs = import_module("onnx.defs")
    try:
        schema = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None
    known = schema.has_function or schema.has_context_dependent_function
    return schema if known else None


def _function(
    schema: Any,
    node: Any,
    opset: int,
    kinds: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
) -> Any:
    onnx = import_module("onnx")
    if schema.has_function:
        found = schema.get_function_with_opset_version(
            _newest(schema.function_opset_versions, opset)
        )
    else:
        described = [
            onnx.helper.make_tensor_type_proto(kinds[name], shapes[name]).SerializeToString()
            for name in node.input
        ]
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        found = onnx_native.function_of(schema.name, opset, version, node, described)
    function = onnx.FunctionProto()
    function.ParseFromString(found if isinstance(found, bytes) else found.SerializeToString())
    return function


def _say_defaults(schema: Any, node: Any) -> None:
    """Attributes that are left out, as the schema has them: the function refers to them."""
    said = {each.name for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in said and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _newest(versions: list[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))
