"""ONNX files that are wrong, huge for their size, or odd: one of each kind, and what is said.

`None` where there is an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, TensorProto, helper

node, info, tensor = helper.make_node, helper.make_tensor_value_info, helper.make_tensor
FLOAT, INT32, INT64, BOOL, STRING = 1, 6, 7, 9, 8
Nodes = Sequence[Any]


def value(name: str, shape: Any = (4,), kind: int = FLOAT) -> Any:
    return info(name, kind, shape)


def model(
    nodes: Nodes, *, ins: Nodes = (), outs: Nodes = (), weights: Nodes = (), opset: int = 20,
    functions: Nodes = (), how: Callable[[Any], None] | None = None,
) -> bytes:  # fmt: skip
    """A model that reads x unless told otherwise, and gives y."""
    outs = list(outs) or [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(list(nodes), "g", list(ins) or [value("x")], outs, list(weights))
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("z", 1)]
    made = helper.make_model(graph, opset_imports=domains, functions=list(functions))
    if how is not None:
        how(made)
    return bytes(made.SerializeToString())


def function(
    name: str, nodes: Nodes, ins: str = "a", outs: str = "b", opset: int = 20, **more: Any
) -> Any:
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("z", 1)]
    return helper.make_function("z", name, ins.split(), outs.split(), list(nodes), domains, **more)


def call(name: str, read: str = "x", made: str = "y", **more: Any) -> Any:
    return node(name, read.split(), made.split(), domain="z", **more)


def graph(nodes: Nodes, ins: Nodes = (), outs: str = "o", weights: Nodes = ()) -> Any:
    results = [helper.make_empty_tensor_value_info(name) for name in outs.split()]
    return helper.make_graph(list(nodes), "b", list(ins), results, list(weights))


def relu(read: str = "x", made: str = "y") -> Any:
    return node("Relu", [read], [made])


def ints(name: str, *values: int, shape: Any = None) -> Any:
    return tensor(name, INT64, [len(values)] if shape is None else shape, list(values))


TRUE = tensor("t", BOOL, [], [True])


def loop(trips: int, body: Nodes | None = None, name: str = "v") -> Any:
    """A Loop of some rounds around a body that makes vo of v."""
    inner = graph(
        [node("Identity", ["c"], ["co"]), *(body or [relu("v", "vo")])],
        [value("i", (), INT64), value("c", (), BOOL), value("v")],
        "co vo",
    )
    return node("Loop", [f"m{trips}", "t", name], ["y" if name == "x" else "vo"], body=inner)


def unrolled(trips: int, body: Nodes | None = None) -> bytes:
    made = [tensor(f"m{count}", INT64, [], [count]) for count in {trips, 100}]
    return model([loop(trips, body, "x")], weights=[*made, TRUE])


def scan(rounds: int, **how: Any) -> bytes:
    body = graph(
        [node("Add", ["s", "p"], ["so"]), relu("so", "o")], [value("s"), value("p")], "so o"
    )
    given = {"body": body, "num_scan_inputs": 1} | how
    return model(
        [node("Scan", ["x", "q"], ["y", "w"], **given)], ins=[value("x"), value("q", (rounds, 4))]
    )


def conditional(then: Any, other: Any = None, **how: Any) -> bytes:
    branches = {"then_branch": then, "else_branch": other or graph([relu("x", "o")])}
    return model([node("If", ["t"], ["y"], **branches)], weights=[TRUE], **how)


def doubling(depth: int, *, within: bool) -> list[Any]:
    """Functions that call the next one twice, in branches or not."""
    made = [function("F0", [relu("a", "b")])]
    for level in range(1, depth):
        twice = [call(f"F{level - 1}", "a", "m"), call(f"F{level - 1}", "m", "o")]
        if within:
            condition = node("Constant", [], ["k"], value=TRUE)
            branch = graph(twice)
            both = {"then_branch": branch, "else_branch": graph([relu("a", "o")])}
            made.append(function(f"F{level}", [condition, node("If", ["k"], ["b"], **both)]))
        else:
            twice[1].output[0] = "b"
            made.append(function(f"F{level}", twice))
    return made


def nested(depth: int) -> bytes:
    """Branches within branches."""
    inner = graph([relu("x", "o")])
    for _ in range(depth):
        inner = graph(
            [node("If", ["t"], ["o"], then_branch=inner, else_branch=graph([relu("x", "o")]))]
        )
    return conditional(inner)


def outside(location: str, **more: Any) -> Any:
    """A weight whose numbers are in another file."""
    made = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **more}.items():
        made.external_data.add(key=key, value=str(text))
    return made


def _kind(name: str, kind: int) -> Callable[[Any], None]:
    """Gives the attribute of a name another kind."""

    def change(made: Any) -> None:
        for each in made.graph.node[0].attribute:
            if each.name == name:
                each.type = kind

    return change


def _version(version: int) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        made.opset_import[0].version = version

    return change


def _sequence(name: str) -> Any:
    return helper.make_tensor_sequence_value_info(name, FLOAT, [4])


def _reference(made: Any) -> None:
    made.graph.node[0].attribute.add(name="axis", ref_attr_name="axis", type=AttributeProto.INT)


def _twice(made: Any) -> None:
    made.graph.node[0].attribute.add(name="axis", i=0, type=AttributeProto.INT)


def _names() -> Iterator[tuple[str, bytes, str | None]]:
    yield "nothing makes it", model([relu("q")]), "has nothing that makes q"
    yield "made twice", model([relu(), relu()]), "two nodes that make y"
    yield "result of nothing", model([relu("x", "z")]), "nothing that makes its result y"
    yield "circle", model([relu("z"), relu("y", "z")]), "waits for its own results"
    yield "itself", model([relu("y")]), "waits for its own results"
    yield "two inputs", model([relu()], ins=[value("x"), value("x")]), "two inputs named x"
    yield (
        "two weights",
        model([relu()], weights=[ints("w", 1), ints("w", 2)]),
        "two weights named w",
    )
    yield "made and given", model([relu("x", "x")]), "two nodes that make x"
    yield "no result", model([node("Relu", ["x"], [""])]), "has 0 results of"
    yield "no name", model([relu("", "y")]), "has 0 inputs of"
    yield "body reads nothing", conditional(graph([relu("q", "o")])), "nothing that makes q"
    yield "body makes nothing", conditional(graph([relu()], outs="z")), "makes its result z"
    yield "body in a circle", conditional(graph([relu("o", "o")])), "waits for its own results"
    yield "names of both branches", model(
        [node("If", ["t"], [made], name="same", then_branch=graph([relu("x", "o")]),
              else_branch=graph([relu("x", "o")])) for made in "yw"], weights=[TRUE]
    ), None  # fmt: skip
    yield "text of zeros", model([relu("x", "a\0b"), relu("a\0b")]), None


def _attributes() -> Iterator[tuple[str, bytes, str | None]]:
    yield "text for a number", model([node("Concat", ["x", "x"], ["y"], axis="q")]), "another kind"
    yield "numbers for one", model([node("Concat", ["x", "x"], ["y"], axis=[0, 1])]), "another kind"
    concat = [node("Concat", ["x", "x"], ["y"], axis=0)]
    for kind in (0, 1, 4, 5):
        yield f"kind {kind}", model(concat, how=_kind("axis", kind)), "another kind"
    yield "twice", model(concat, how=_twice), "two attributes axis"
    yield "left out", model([node("Concat", ["x", "x"], ["y"])]), "has no axis"
    yield "of a function", model([node("Softmax", ["x"], ["y"])], how=_reference), "is in none"
    for axis in (-(2**63), 2**63 - 1, 5):
        yield f"axis {axis}", model([node("Concat", ["x", "x"], ["y"], axis=axis)]), "axis"
        yield f"softmax {axis}", model([node("Softmax", ["x"], ["y"], axis=axis)]), "axis"
    for perm in ([0, 0], [5], [-1]):
        yield f"perm {perm}", model([node("Transpose", ["x"], ["y"], perm=perm)]), ""
    yield "cast", model([node("Cast", ["x"], ["y"], to=99)]), ""
    yield "cast to nothing", model([node("Cast", ["x"], ["y"], to=-1)]), ""
    yield "cast to text", model([node("Cast", ["x"], ["y"], to=STRING)]), ""
    yield "no value", model([node("Constant", [], ["y"])]), "has 0 values"
    yield (
        "two values",
        model([node("Constant", [], ["y"], value_int=1, value_float=1.0)]),
        "2 values",
    )
    yield "split", model([node("Split", ["x"], ["a", "b", "y"], num_outputs=2)]), "into 2 parts"
    yield "split of 0", model([node("Split", ["x"], ["y"], num_outputs=0)]), "into 0 parts"
    yield "groups", model(
        [node("Conv", ["x", "w"], ["y"], group=0)], ins=[value("x", (1, 4, 8, 8))],
        weights=[tensor("w", FLOAT, [4, 4, 3, 3], [0.0] * 144)],
    ), ""  # fmt: skip
    yield "strides of 0", model(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 0])],
        ins=[value("x", (1, 4, 8, 8))],
    ), ""  # fmt: skip
    yield "einsum", model([node("Einsum", ["x"], ["y"], equation="i->" + "i" * 40)]), ""
    yield "einsum of nothing", model([node("Einsum", ["x"], ["y"], equation="->>,")]), ""
    yield "eye", model([call("Foo", "x", "a"), node("EyeLike", ["a"], ["y"], dtype=1)]), ""
    yield "eye of nothing", model([node("EyeLike", ["x"], ["y"], dtype=99)]), ""


def _counts() -> Iterator[tuple[str, bytes, str | None]]:
    yield "few", model([node("Add", ["x"], ["y"])]), "has 1 inputs of y (Add), which has 2"
    yield "many", model([node("Relu", ["x", "x"], ["y"])]), "has 2 inputs of y (Relu), which has 1"
    yield "none", model([node("Shape", [], ["y"])]), "has 0 inputs of y (Shape), which has 1"
    yield "many results", model([node("Relu", ["x"], ["y", "z"])]), "2 results of y"
    yield "left out", model([node("Add", ["", "x"], ["y"])]), "leaves out input 0"
    yield "left out of many", model([node("Concat", ["x", "", "x"], ["y"], axis=0)]), "input 1"
    yield "no branches", model([node("If", ["t"], ["y"])], weights=[TRUE]), "has no else_branch"
    yield "no body", model([node("Loop", ["", "t", "x"], ["y"])], weights=[TRUE]), "has no body"
    empty = graph([], outs="")
    yield "a branch of nothing", conditional(empty), "body of"
    yield "a body of nothing", model(
        [node("Loop", ["", "t", "x"], ["y"], body=empty)], weights=[TRUE]), "body of"  # fmt: skip
    yield "branch with inputs", conditional(graph([relu("q", "o")], [value("q")])), "0 inputs"
    yield "scan of none", scan(4, num_scan_inputs=0), "num_scan_inputs is 0"
    yield "scan of all", scan(4, num_scan_inputs=2**40), "num_scan_inputs is 1099"
    yield "scan of less", scan(4, num_scan_inputs=-1), "num_scan_inputs is -1"
    yield "scan axes", scan(4, scan_input_axes=[0, 1]), "2 scan_input_axes"
    yield "scan axis", scan(4, scan_input_axes=[7]), ""
    yield "scan results", scan(4, scan_output_axes=[9]), ""
    yield "batch norm", model([node("BatchNormalization", ["x", "x"], ["y"])]), "which has 5"


def _kinds() -> Iterator[tuple[str, bytes, str | None]]:
    for kind in (0, 99, -1, 2**31 - 1):
        yield f"fed {kind}", model([relu()], ins=[value("x", (4,), kind)]), ""
    yield "a sequence", model([relu()], ins=[_sequence("x")]), "no tensor"
    yield "a sequence within", model(
        [node("SequenceConstruct", ["x"], ["s"]), relu("s")]), ""  # fmt: skip
    yield "no sequence", model([node("SequenceAt", ["x", "n"], ["y"])], weights=[ints("n", 0)]), ""
    yield "no kind", model([relu()], ins=[helper.make_empty_tensor_value_info("x")]), "no tensor"
    yield "text", model([relu("w")], weights=[tensor("w", STRING, [1], [b"a"])]), ""
    yield "text made", model([node("Constant", [], ["y"], value_string="a")]), ""
    yield "texts", model(
        [node("StringConcat", ["x", "x"], ["y"])], ins=[value("x", (4,), STRING)]), ""  # fmt: skip
    weight = TensorProto(name="w", data_type=77, dims=[1])
    yield "weight", model([node("Add", ["x", "w"], ["y"])], weights=[weight]), "no such element"
    yield "number 23 on text", model([node("Not", ["x"], ["y"])]), ""
    yield "complex", model([relu()], ins=[value("x", (4,), 14)]), ""


def _tensors() -> Iterator[tuple[str, bytes, str | None]]:
    add = [node("Add", ["x", "w"], ["y"])]
    negative = TensorProto(name="w", data_type=FLOAT, dims=[-4])
    yield "negative", model(add, weights=[negative]), "sizes are 0 or more"
    short = TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=b"abc")
    yield "short", model(add, weights=[short]), "as many numbers"
    long = TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=bytes(400))
    yield "long", model(add, weights=[long]), "as many numbers"
    large = TensorProto(name="w", data_type=FLOAT, dims=[2**31, 2**31, 4])
    yield "large", model(add, weights=[large]), ""
    larger = TensorProto(name="w", data_type=FLOAT, dims=[2**62, 2**62])
    yield "larger", model(add, weights=[larger]), ""
    yield "short constant", model([node("Constant", [], ["y"], value=short)]), "as many numbers"
    yield "negative constant", model([node("Constant", [], ["y"], value=negative)]), "or more"
    yield "negative input", model([relu()], ins=[value("x", (-3, 4))]), ""
    yield "large input", model([relu()], ins=[value("x", (2**40, 2**40))]), ""
    yield "open", model([relu()], ins=[value("x", None)]), "no tensor with a rank"
    for where in ("/etc/passwd", "../../w.bin", "no.bin", "", "/dev/zero", "a\0b"):
        said = "is no path" if "\0" in where else None
        yield f"at {where!r}", model(add, weights=[outside(where, offset=10**18)]), said
    yield "constant beside", model(
        [node("Constant", [], ["w"], value=outside("/dev/zero")), *add]), None  # fmt: skip
    yield "shape of floats", model(
        [node("Reshape", ["x", "w"], ["y"])], weights=[tensor("w", FLOAT, [1], [4.0])]), ""  # fmt: skip  # noqa: E501 - a row of a table
    yield "shape of -2", model([node("Reshape", ["x", "w"], ["y"])], weights=[ints("w", -2)]), ""
    yield "two open", model([node("Reshape", ["x", "w"], ["y"])], weights=[ints("w", -1, -1)]), ""
    yield "by 0", model(
        [node("Div", ["a", "b"], ["w"]), node("Expand", ["x", "w"], ["y"])],
        weights=[ints("a", 1), ints("b", 0)]), ""  # fmt: skip


def _functions() -> Iterator[tuple[str, bytes, str | None]]:
    plain = function("F", [relu("a", "b")])
    yield "proper", model([call("F")], functions=[plain]), None
    yield (
        "many inputs",
        model([call("F", "x x")], functions=[plain]),
        "2 inputs, its function has 1",
    )
    yield "many results", model([call("F", "x", "y z")], functions=[plain]), "2 results"
    two = function("F", [node("Add", ["a", "c"], ["b"])], "a c")
    yield "few inputs", model([call("F")], functions=[two]), ""
    yield "itself", model([call("F")], functions=[function("F", [call("F", "a", "b")])]), "itself"
    circle = [function("F", [call("G", "a", "b")]), function("G", [call("F", "a", "b")])]
    yield "circle", model([call("F")], functions=circle), "calls itself"
    yield "unused circle", model([relu()], functions=circle), "calls itself"
    inner = graph([call("F", "a", "o")])
    branch = node("If", ["k"], ["b"], then_branch=inner, else_branch=inner)
    condition = node("Constant", [], ["k"], value=TRUE)
    yield "circle in branches", model(
        [call("F")], functions=[function("F", [condition, branch])]), "calls itself"  # fmt: skip
    yield "in a branch", conditional(graph([call("F", "x", "o")]), functions=[plain]), None
    yield "two of a name", model([call("F")], functions=[plain, plain]), "two functions"
    yield "no nodes", model([call("F")], functions=[function("F", [])]), "nothing that makes"
    yield (
        "reads nothing",
        model([call("F")], functions=[function("F", [relu("q", "b")])]),
        "makes q",
    )
    yield (
        "one input twice",
        model([call("F", "x x")], functions=[function("F", [relu("a", "b")], "a a")]),
        "two inputs of a name",
    )
    needs = function("F", [node("Concat", ["a", "a"], ["b"])], attributes=["axis"])
    needs.node[0].attribute.add(name="axis", ref_attr_name="axis", type=AttributeProto.INT)
    yield "no attribute", model([call("F")], functions=[needs]), "without axis"
    yield "wrong attribute", model([call("F", axis="q")], functions=[needs]), ""
    yield "attribute", model([call("F", axis=0)], functions=[needs]), None
    for within in (False, True):
        yield f"doubling {within}", model(
            [call("F39")], functions=doubling(40, within=within)), "functions unfolded"  # fmt: skip
    chain = [function("F0", [relu("a", "b")])]
    chain += [function(f"F{k}", [call(f"F{k - 1}", "a", "b")]) for k in range(1, 3000)]
    yield "a long chain", model([call("F2999")], functions=chain), "call one another"
    yield (
        "another version",
        model([call("F")], functions=[function("F", [relu("a", "b")], opset=7)]),
        "",
    )
    yield (
        "no version",
        model([call("F")], functions=[function("F", [relu("a", "b")], opset=-1)]),
        "version -1",
    )


def _rounds() -> Iterator[tuple[str, bytes, str | None]]:
    yield "loop", unrolled(5), None
    for trips in (24_000, 50_000, 2**62):
        yield f"loop of {trips}", unrolled(trips), "50,000 operators"
    yield "no rounds", unrolled(0), None
    yield "fewer", unrolled(-5), None
    yield "nested loops", unrolled(100, [loop(100, [loop(100, [loop(100)])])]), "50,000 operators"
    for rounds in (24_000, 10**6):
        yield f"scan of {rounds}", scan(rounds), "50,000 operators"
    yield "split", model(
        [node("SplitToSequence", ["x"], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        ins=[value("x", (10**6,))]), "into parts of 1"  # fmt: skip
    yield "split by 0", model(
        [node("SplitToSequence", ["x", "n"], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)],  # noqa: E501 - a row of a table
        weights=[ints("n", 0, shape=[])]), "parts of 0"  # fmt: skip
    yield "split axis", model(
        [node("SplitToSequence", ["x"], ["s"], axis=5), node("ConcatFromSequence", ["s"], ["y"], axis=0)],  # noqa: E501 - a row of a table
    ), "axis"  # fmt: skip
    yield "split elsewhere", model(
        [node("SplitToSequence", ["x", "n"], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)],  # noqa: E501 - a row of a table
        weights=[ints("n", 3, 3)]), ""  # fmt: skip
    yield "place 99", model(
        [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceAt", ["s", "n"], ["y"])],
        weights=[ints("n", 99, shape=[])]), "place 99"  # fmt: skip
    yield "of nothing", model(
        [node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)]), ""  # fmt: skip  # noqa: E501 - a row of a table
    yield "erase of nothing", model(
        [node("SequenceEmpty", [], ["s"]), node("SequenceErase", ["s"], ["r"]),
         node("SequenceLength", ["r"], ["y"])]), ""  # fmt: skip
    grown = graph(
        [node("Identity", ["c"], ["co"]), node("SequenceInsert", ["s", "x"], ["so"])],
        [value("i", (), INT64), value("c", (), BOOL), _sequence("s")], "co so",
    )  # fmt: skip
    yield "grown", model(
        [node("SequenceEmpty", [], ["e"]), node("Loop", ["m", "t", "e"], ["r"], body=grown),
         node("SequenceLength", ["r"], ["y"])],
        weights=[tensor("m", INT64, [], [5000]), TRUE]), "tensors together"  # fmt: skip
    yield "nested branches", nested(20), None


def _work() -> Iterator[tuple[str, bytes, str | None]]:
    large = tensor("c", FLOAT, [1], [20.5])
    sized = [node("Exp", ["c"], ["e"]), node("Cast", ["e"], ["i"], to=INT64)]
    scalar = [*sized, node("Squeeze", ["i"], ["j"])]
    one = [tensor("n0", INT64, [], [0]), tensor("n1", INT64, [], [1])]
    for op, nodes in {
        "ConstantOfShape": [*sized, node("ConstantOfShape", ["i"], ["y"])],
        "Tile": [*sized, node("Tile", ["x", "i"], ["y"])],
        "Tile of what is known": [*sized, node("Tile", ["c", "i"], ["y"])],
        "Expand": [*sized, node("Expand", ["c", "i"], ["y"])],
        "Range": [*scalar, node("Range", ["n0", "j", "n1"], ["y"])],
        "OneHot": [*scalar, node("OneHot", ["i", "j", "v"], ["y"])],
        "Pad": [*sized, node("Concat", ["i", "i"], ["p"], axis=0), node("Pad", ["c", "p"], ["y"])],
    }.items():
        yield op, model(nodes, weights=[large, *one, ints("v", 0, 1)]), ""
    text = tensor("s", STRING, [1], [b"a" * 40 + b"!"])
    regex = node("RegexFullMatch", ["s"], ["y"], pattern="(a+)+$")
    yield "RegexFullMatch", model([regex], weights=[text]), ""
    boxes = node("ConstantOfShape", ["n"], ["b"], value=tensor("v", FLOAT, [1], [0.5]))
    scores = node("ConstantOfShape", ["k"], ["s"], value=tensor("v", FLOAT, [1], [0.5]))
    yield "NonMaxSuppression", model(
        [boxes, scores, node("NonMaxSuppression", ["b", "s"], ["y"])],
        weights=[ints("n", 1, 16000, 4), ints("k", 1, 1, 16000)]), ""  # fmt: skip
    picture = node("ConstantOfShape", ["n"], ["p"])
    for op, more in {
        "MaxPool": node("MaxPool", ["p"], ["y"], kernel_shape=[120, 120]),
        "AveragePool": node("AveragePool", ["p"], ["y"], kernel_shape=[120, 120]),
        "Resize": node("Resize", ["p", "", "z"], ["y"], mode="cubic"),
        "Conv": node("Conv", ["p", "p"], ["y"], pads=[254] * 4),
        "LRN": node("LRN", ["p"], ["y"], size=255),
        "Einsum": node("Einsum", ["p", "p"], ["y"], equation="abcd,abed->abce"),
    }.items():
        scales = tensor("z", FLOAT, [4], [1.0, 1.0, 4.0, 4.0])
        yield op, model([picture, more], weights=[ints("n", 1, 1, 255, 255), scales]), ""
    many = [
        node("MatMul", ["e" if k else "c", "c"], ["e" if k == 299 else f"e{k}"]) for k in range(1)
    ]
    square = tensor("c", FLOAT, [256, 256], [1.0] * 65536)
    many = [node("MatMul", [f"e{k}" if k else "c", "c"], [f"e{k + 1}"]) for k in range(300)]
    yield (
        "products",
        model(
            [*many, node("Add", ["x", "e300"], ["y"])], ins=[value("x", (256,))], weights=[square]
        ),
        None,
    )
    shapes = [node("Add", [f"e{k}" if k else "c", "c"], [f"e{k + 1}"]) for k in range(3000)]
    yield (
        "arithmetic",
        model([*shapes, node("Expand", ["x", "e3000"], ["y"])], weights=[ints("c", 0)]),
        "",
    )
    deep = b"".join(b"\x3a" + bytes([0xFF, 0x7F]) for _ in range(4000))
    yield "deep protobuf", deep, "isn't an ONNX model"
    for version in (0, -1, 10**6, 2**62):
        yield f"version {version}", model([relu()], how=_version(version)), "means version"
    yield "version 999", model([relu()], how=_version(999)), None
    yield "version 1", model([relu()], opset=1), ""
    yield "empty", b"", "isn't an ONNX model"
    yield "no nodes", model([]), "isn't an ONNX model with operators"
    yield "no graph", b"\x08\x08", "isn't an ONNX model with operators"


KINDS = (_names, _attributes, _counts, _kinds, _tensors, _functions, _rounds, _work)


def nasty() -> list[tuple[str, bytes, str | None]]:
    """A name, a file, and words of what is said of it: empty for any refusal, None for none."""
    return [
        (f"{kind.__name__[1:]}: {name}", content, said)
        for kind in KINDS
        for name, content, said in kind()
    ]
