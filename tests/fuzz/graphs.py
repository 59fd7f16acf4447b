"""ONNX graphs: random ones of any operator, in bodies and functions too, then slightly broken."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fuzz import odd

Dice = random.Random
_ODD_NUMBERS = (0, 1, -1, 2, 3, 4, 7, 99, -99, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_NUMBERS = (0, 1, -1, 2, 3, 1, 0)
_KINDS = (1, 1, 1, 1, 7, 7, 9, 10, 6, 8, 2, 3, 11, 14, 16, 17, 21, 23)
_TEXTS = (
    "",
    "SAME_UPPER",
    "NOTSET",
    "linear",
    "cubic",
    "nearest",
    "constant",
    "ij,jk->ik",
    "sum",
    "\0",
    "é",
)


def onnx_graphs(dice: Dice, made: Any) -> None:
    """A random graph with none to three faults, or a file of a nasty kind with as many."""
    model = _model(dice) if dice.random() < 0.7 else _nasty(dice)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
        dice.choice(_FAULTS)(dice, model)
    content = bytes(model.SerializeToString())
    made.files["m.onnx"] = odd.bent(dice, content) if dice.random() < 0.1 else content
    more = ["--batch", dice.choice(("1", "2", "0", "2147483647"))] if dice.random() < 0.1 else []
    made.words = [*dice.choice((["check", "--model"], ["model"], ["model"])), "m.onnx", *more]
    made.words += ["-s", dice.choice(("910b3", "310p3", "910a"))]


@cache
def _schemas(opset: int) -> dict[str, Any]:
    """The operators of a version."""
    from onnx import defs

    names = {each.name for each in defs.get_all_schemas() if not each.domain}
    return {name: defs.get_schema(name, opset, "") for name in names if defs.has(name, opset, "")}


@cache
def _nasty_files() -> list[bytes]:
    from support.nasty_graphs import nasty

    return [content for _, content, _ in nasty() if len(content) < 50_000]


def _nasty(dice: Dice) -> Any:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    try:
        return ModelProto.FromString(dice.choice(_nasty_files()))
    except DecodeError:
        return _model(dice)


Names = dict[str, str]  # with their types as schemas spell them; empty for unknown ones
_TYPES = {1: "tensor(float)", 7: "tensor(int64)", 9: "tensor(bool)"}


@dataclass
class _Writing:
    """The model that is written: its version, and its functions so far."""

    dice: Dice
    opset: int
    functions: list[Any] = field(default_factory=list)


def _model(dice: Dice) -> Any:
    from onnx import helper

    write = _Writing(dice, dice.choice((9, 11, 13, 15, 17, 18, 19, 20, 21, 22, 23, 24)))
    fed = [_value(dice, name) for name in ("x", "y")[: dice.choice((1, 1, 2))]]
    names = {each.name: _TYPES.get(each.type.tensor_type.elem_type, "") for each in fed}
    weights = [_weight(dice, f"w{place}") for place in range(dice.randrange(6))]
    names |= {each.name: _TYPES.get(each.data_type, "") for each in weights}
    nodes = _nodes(write, names, dice.randrange(1, 7), 2)
    results = [name for node in nodes for name in node.output if name][-2:] or ["x"]
    graph = helper.make_graph(
        nodes, "g", fed, [helper.make_empty_tensor_value_info(name) for name in results], weights
    )
    domains = [helper.make_opsetid("", write.opset), helper.make_opsetid("z", 1)]
    return helper.make_model(graph, opset_imports=domains, functions=write.functions)


def _value(dice: Dice, name: str) -> Any:
    from onnx import helper

    shape = [4 for _ in range(dice.choice((0, 1, 2, 2, 3, 4, 4)))]
    if shape and dice.random() < 0.2:
        shape[0] = dice.choice((1, 2, 3, 8, 0, "N", None))
    return helper.make_tensor_value_info(name, dice.choice(_KINDS[:8]), shape)


def _weight(dice: Dice, name: str) -> Any:
    import numpy as np
    from onnx import helper, numpy_helper

    if dice.random() < 0.05:
        return helper.make_tensor(name, 8, [1], [b"a*"])
    shape = dice.choice(((), (), (1,), (1,), (2,), (4,), (4, 4), (4, 4, 3, 3), (1, 4, 1, 1)))
    kind = dice.choice((np.float32, np.float32, np.int64, np.int64, np.int64, np.bool_, np.float16))
    array = np.array(dice.choice((0, 1, 1, 2, -1, 4, 8)) * np.ones(shape)).astype(kind)
    return numpy_helper.from_array(array, name)


def _nodes(write: _Writing, names: Names, count: int, depth: int, mark: str = "") -> list[Any]:
    """Nodes that read what is there; `names` grows by what they make."""
    return [_node(write, names, depth, f"{mark}{place}") for place in range(count)]


_CONTROL = ("If", "Loop", "Scan", "SequenceMap")
_COMMON = (
    "Add", "Mul", "Relu", "Concat", "Reshape", "Shape", "Gather", "Slice", "Unsqueeze", "Squeeze",
    "Transpose", "Split", "Constant", "ConstantOfShape", "Expand", "Cast", "Softmax", "MatMul",
    "Range", "Tile", "Where", "ReduceSum", "Conv", "Identity", "SequenceConstruct", "SequenceAt",
    "ConcatFromSequence", "SplitToSequence", "SequenceInsert", "Optional", "Dropout",
)  # fmt: skip


def _read(dice: Dice, names: Names, types: Any = ()) -> str:
    """A name of one of the types, mostly."""
    fits = [name for name, kind in names.items() if not kind or kind in types]
    return dice.choice(fits if fits and dice.random() < 0.9 else list(names))


def _node(write: _Writing, names: Names, depth: int, mark: str) -> Any:
    from onnx import helper

    dice, schemas = write.dice, _schemas(write.opset)
    roll = dice.random()
    if roll < 0.1 and depth:
        return _call(write, names, depth, mark)
    pool = _CONTROL if roll < 0.25 and depth else _COMMON if roll < 0.6 else tuple(schemas)
    schema = schemas.get(dice.choice(pool), schemas["Add"])
    count = dice.randint(schema.min_input, min(schema.max_input, schema.min_input + 2))
    formal = [schema.inputs[min(place, len(schema.inputs) - 1)].types for place in range(count)]
    read = [_read(dice, names, types) for types in formal]
    made = dice.randint(max(1, schema.min_output), min(schema.max_output, schema.min_output + 1))
    outs = [f"o{mark}_{place}" for place in range(made)]
    given: dict[str, Any] = {}
    if schema.name in _CONTROL:
        read, outs, given = _control(write, schema.name, names, depth, mark)
    node = helper.make_node(schema.name, read, outs, dice.choice(("", "node", f"n{mark}")), **given)
    for attribute in schema.attributes.values():
        said = any(each.name == attribute.name for each in node.attribute)
        if not said and (attribute.required or (not given and dice.random() < 0.2)):
            _say(dice, node, attribute.name, int(attribute.type.value), proper=dice.random() < 0.9)
    if schema.name == "Constant":
        del node.attribute[:]
        _say(
            dice,
            node,
            *dice.choice((("value", 4), ("value_int", 2), ("value_ints", 7))),
            proper=True,
        )
    if schema.name == "Split":
        del node.attribute[:]
    names |= dict.fromkeys(outs, "")
    return node


def _say(dice: Dice, node: Any, name: str, kind: int, *, proper: bool) -> None:
    """An attribute of a kind, with some value."""
    numbers = _NUMBERS if proper else _ODD_NUMBERS
    each = node.attribute.add(name=name, type=kind)
    several = [dice.choice(numbers) for _ in range(dice.choice((1, 2, 2, 4)))]
    if kind == each.INT:
        each.i = dice.choice(_KINDS) if name in ("to", "dtype") else several[0]
    elif kind == each.FLOAT:
        each.f = dice.choice((0.0, 1.0, 0.5, -1.0, float("nan"), float("inf")))
    elif kind == each.STRING:
        each.s = dice.choice(_TEXTS).encode()
    elif kind == each.INTS:
        each.ints.extend(several)
    elif kind == each.FLOATS:
        each.floats.extend(float(number) for number in several)
    elif kind == each.STRINGS:
        each.strings.extend([b"", b"a"])
    elif kind == each.TENSOR:
        each.t.CopyFrom(_weight(dice, ""))


def _control(
    write: _Writing, op: str, names: Names, depth: int, mark: str
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Inputs, results and bodies of control flow."""
    dice = write.dice
    carried = [_read(dice, names) for _ in range(dice.randrange(1, 3))]
    if op == "If":
        bodies = {
            name: _body(write, names, [], 1, depth, f"{mark}{name[0]}")
            for name in ("then_branch", "else_branch")
        }
        return [_read(dice, names, ("tensor(bool)",))], [f"o{mark}_0"], bodies
    outs = [f"o{mark}_{place}" for place in range(len(carried))]
    inner = [f"i{mark}_{place}" for place in range(len(carried) + 2 * (op == "Loop"))]
    body = _body(write, names, inner, len(carried) + (op == "Loop"), depth, f"{mark}b")
    given: dict[str, Any] = {"body": body}
    if op == "Scan":
        given["num_scan_inputs"] = dice.choice((1, len(carried)))
    if op == "Loop":
        carried[:0] = [
            _read(dice, names, ("tensor(int64)",)),
            _read(dice, names, ("tensor(bool)",)),
        ]
        body.output[0].name = inner[1]
        body.node.add(op_type="Identity", input=[inner[1]], output=[f"c{mark}"])
        body.output[0].name = f"c{mark}"
    return carried, outs, given


def _body(write: _Writing, names: Names, fed: list[str], made: int, depth: int, mark: str) -> Any:
    from onnx import helper

    own = names | dict.fromkeys(fed, "")
    nodes = _nodes(write, own, write.dice.randrange(1, 4), depth - 1, mark)
    results = [write.dice.choice(list(own)[len(names) :]) for _ in range(made)]
    empty = helper.make_empty_tensor_value_info
    return helper.make_graph(
        nodes, "b", [empty(name) for name in fed], [empty(name) for name in results]
    )


def _call(write: _Writing, names: Names, depth: int, mark: str) -> Any:
    """A call of a function, an old one or a new one."""
    from onnx import helper

    dice, functions = write.dice, write.functions
    if not functions or dice.random() < 0.5:
        inner = [f"a{place}" for place in range(dice.randrange(1, 3))]
        own = dict.fromkeys(inner, "")
        nodes = _nodes(write, own, dice.randrange(1, 4), depth - 1, f"f{mark}")
        opset = write.opset if dice.random() < 0.9 else dice.choice((9, 13, 18, 20))
        domains = [helper.make_opsetid("", opset), helper.make_opsetid("z", 1)]
        name = f"F{len(functions)}"
        functions.append(helper.make_function("z", name, inner, list(own)[-1:], nodes, domains))
    function = dice.choice(functions)
    read = [_read(dice, names) for _ in function.input]
    node = helper.make_node(function.name, read, [f"o{mark}_0"], domain="z")
    names[f"o{mark}_0"] = ""
    return node


# -- faults ----------------------------------------------------------------------------------------


def _some_node(dice: Dice, model: Any) -> Any:
    """A node of a model, of a function or of a body within."""
    graphs = [model.graph, *model.functions]
    for graph in graphs:
        for node in graph.node:
            for each in node.attribute:
                graphs += [each.g] if each.HasField("g") else []
    full = [graph for graph in graphs if graph.node]
    return dice.choice(dice.choice(full).node) if full else model.graph.node.add(op_type="Relu")


def _attribute(dice: Dice, model: Any) -> None:
    node = _some_node(dice, model)
    act = dice.randrange(5)
    if not node.attribute or act == 0:
        _say(
            dice,
            node,
            dice.choice(("axis", "to", "perm", "body", "x")),
            dice.choice((1, 2, 3, 4, 6, 7)),
            proper=False,
        )
        return
    each = dice.choice(node.attribute)
    if act == 1:
        node.attribute.remove(each)
    elif act == 2:
        each.type = dice.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
    elif act == 3:
        each.ref_attr_name = "axis"
    else:
        name, kind = each.name, each.type
        node.attribute.remove(each)
        _say(dice, node, name, kind, proper=False)


def _edge(dice: Dice, model: Any) -> None:
    node = _some_node(dice, model)
    names = dice.choice((node.input, node.output))
    other = _some_node(dice, model)
    pool = [*other.input, *other.output, "", "nobody", "x", "\0", "a" * 9]
    act = dice.randrange(4)
    if act == 0 or not names:
        names.append(dice.choice(pool))
    elif act == 1:
        del names[dice.randrange(len(names))]
    elif act == 2:
        names[dice.randrange(len(names))] = dice.choice(pool)
    else:
        names[:] = [dice.choice(names) for _ in range(dice.choice((1, 3, 40)))]


def _operator(dice: Dice, model: Any) -> None:
    node = _some_node(dice, model)
    act = dice.randrange(4)
    if act == 0:
        node.domain = dice.choice(("z", "ai.onnx", "ai.onnx.ml", "npu", "com.microsoft", "\0"))
    elif act == 1:
        node.op_type = dice.choice(("", "F0", "F1", "NoSuch", "\0"))
    else:
        node.op_type = dice.choice(tuple(_schemas(20)))


def _kept(dice: Dice, model: Any) -> None:
    """A weight."""
    weights = model.graph.initializer
    if not weights:
        weights.append(_weight(dice, dice.choice(("x", "w0", ""))))
    each = dice.choice(weights)
    act = dice.randrange(6)
    if act == 0:
        each.dims[:] = [dice.choice(_ODD_NUMBERS) for _ in range(dice.randrange(4))]
    elif act == 1:
        each.data_type = dice.choice((0, 8, 14, 16, 21, 22, 23, 99, -1))
    elif act == 2:
        each.raw_data = each.raw_data[: dice.randrange(9)]
    elif act == 3:
        each.data_location = each.EXTERNAL
        each.external_data.add(key="location", value=dice.choice(("/etc/passwd", "../x", "no", "")))
        each.external_data.add(key="offset", value=dice.choice(("0", "-1", "1e9", "x")))
    elif act == 4:
        each.name = dice.choice(("x", "", "w1"))
    else:
        weights.append(each)


def _type(dice: Dice, model: Any) -> None:
    """Of what is fed or given out."""
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    each = dice.choice(values)
    act = dice.randrange(6)
    if act == 0:
        each.type.tensor_type.elem_type = dice.choice((0, 8, 14, 16, 21, 23, 99, -1))
    elif act == 1:
        each.type.tensor_type.shape.dim.add(dim_value=dice.choice(_ODD_NUMBERS))
    elif act == 2:
        del each.type.tensor_type.shape.dim[:]
    elif act == 3:
        each.type.sequence_type.elem_type.tensor_type.elem_type = 1
    elif act == 4:
        each.type.optional_type.elem_type.tensor_type.elem_type = 1
    else:
        each.ClearField("type")


def _version(dice: Dice, model: Any) -> None:
    act = dice.randrange(4)
    if act == 0:
        del model.opset_import[:]
    elif act == 1 and model.opset_import:
        model.opset_import[0].version = dice.choice((1, 7, 25, *_ODD_NUMBERS))
    elif act == 2:
        model.ir_version = dice.choice(_ODD_NUMBERS)
    else:
        model.opset_import.add(
            domain=dice.choice(("", "ai.onnx", "z")), version=dice.choice((1, 12))
        )


def _structure(dice: Dice, model: Any) -> None:
    """Nodes in another order, twice or gone; functions that call others, or are there twice."""
    nodes = dice.choice([model.graph.node, *(each.node for each in model.functions)])
    act = dice.randrange(5)
    if act == 0 and nodes:
        del nodes[dice.randrange(len(nodes))]
    elif act == 1 and nodes:
        nodes.append(dice.choice(nodes))
    elif act == 2:
        order = list(nodes)
        dice.shuffle(order)
        del nodes[:]
        nodes.extend(order)
    elif act == 3 and model.functions:
        call = dice.choice(model.functions).node.add(op_type=dice.choice(model.functions).name)
        call.domain = "z"
        call.input.append("a0")
        call.output.append("b9")
    elif model.functions:
        model.functions.append(dice.choice(model.functions))


_FAULTS = (_attribute, _attribute, _edge, _edge, _operator, _kept, _type, _version, _structure)
