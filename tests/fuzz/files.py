"""Files that others write: ONNX models, folders of a profiler, programs in C++."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from fuzz import odd


@cache
def _proper(kind: str) -> bytes:
    from onnx import TensorProto, helper

    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in "xyz"]
    node = helper.make_node(kind, ["x"], ["y"])
    other = helper.make_node("Add", ["x", "y"], ["z"])
    graph = helper.make_graph([node, other], "g", tensors[:1], tensors[2:])
    return bytes(helper.make_model(graph).SerializeToString())


def onnx_models(dice: random.Random, made: Any) -> None:
    """An ONNX model, mostly bent."""
    content = _proper(dice.choice(("Relu", "Softmax", "Loop", "NoSuch", "")))
    made.files["m.onnx"] = odd.bent(dice, content) if dice.random() < 0.7 else content
    verb = dice.choice((["check", "--model"], ["check", "--model"], ["model"]))
    made.words = [*verb, "m.onnx", "-s", odd.chip(dice)]


def onnx_nodes(dice: random.Random, made: Any) -> None:
    """A node of any ONNX operator on what is there, whether or not it fits."""
    from onnx import TensorProto, defs, helper

    schema = dice.choice([each for each in defs.get_all_schemas() if not each.domain])
    names = ["x", "y", "n"]
    info = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4][: dice.randrange(3)]),
        helper.make_tensor_value_info("n", TensorProto.INT64, [2]),
    ]
    wanted = dice.choice((schema.min_input, schema.min_input + 1, 0))
    read = [dice.choice(names) for _ in range(min(wanted, schema.max_input))]
    made_up = [f"o{place}" for place in range(max(1, schema.min_output))]
    node = helper.make_node(schema.name, read, made_up, "node")
    graph = helper.make_graph(
        [node, helper.make_node("Relu", [made_up[0]], ["z"])], "g", info,
        [helper.make_tensor_value_info("z", dice.choice((TensorProto.FLOAT, TensorProto.BOOL)), None)],
    )  # fmt: skip
    opset = helper.make_opsetid("", dice.choice((9, 13, 17, 20)))
    made.files["m.onnx"] = helper.make_model(graph, opset_imports=[opset]).SerializeToString()
    verb = dice.choice((["check", "--model"], ["model"], ["model"]))
    made.words = [*verb, "m.onnx", "-s", odd.chip(dice)]


def folders(dice: random.Random, made: Any) -> None:
    """A folder, as a profiler or somebody else leaves it, where a file is wanted or a folder."""
    name = dice.choice(("d/PROF_000001/mindstudio_profiler_output/op_summary_20240101.csv",
                        "d/ASCEND_PROFILER_OUTPUT/kernel_details.csv", "d/x.yaml", "d/.part"))  # fmt: skip
    head = b"Name,Type,Accelerator Core,Duration(us),Input Shapes,Input Data Types,Input Formats\n"
    made.files[name] = odd.bent(dice, head + b'a,Add,AI_CORE,1,"""4;4""",FLOAT;FLOAT,ND;ND\n')
    made.words = [*dice.choice((
        ("model", "d", "-s", "910b3"), ("validate", "d"), ("sweep", "d"), ("plan", "d"), ("check", "--model", "d", "-s", "910b3"),
        ("profiles", "show", "./d"), ("run", "--case", "d", "-s", "910b3"), ("model", name, "-s", "910b3"),
        ("estimate", "aclnnRelu", "self=fp16[4]", "-s", "910b3", "-o", "d"),
        ("estimate", "aclnnRelu", "self=fp16[4]", "-s", "910b3", "-o", "d", "--format", "msprof"),
        ("run", "aclnnRelu", "self=fp16[4]", "-s", "910b3", "-o", "d"), ("run", "aclnnRelu", "--inputs", "d", "-s", "910b3"),
        ("trace", "aclnnRelu", "self=fp16[4]", "-s", "910b3", "-o", "d"), ("report", "aclnnRelu", "self=fp16[4]", "-o", "d/a.html"),
        ("exec", "d"), ("cc", "d"),
    ))]  # fmt: skip


def programs(dice: random.Random, made: Any) -> None:
    """Something to compile, or to run."""
    source = b'#include "acl/acl.h"\nint main() { return aclInit(nullptr); }\n'
    made.files["a.cpp"] = odd.bent(dice, source)
    made.files["a.bin"] = odd.bent(dice, b"\x7fELF\x02\x01\x01")
    made.files["a.sh"] = b"#!/bin/sh\nexit 7\n"
    made.words = [*dice.choice((
        ("cc", "a.cpp"), ("cc", "a.bin"), ("cc", "a.cpp", "-o", "a.cpp"), ("cc", "no.cpp"), ("cc",),
        ("exec", "./a.bin"), ("exec", "./a.sh"), ("exec", "a.cpp", "-s", odd.chip(dice)), ("exec", "/bin/true", "--json", "x.json"),
        ("exec", "/bin/true", "--trace", "t.json", "--leaks"), ("exec", "", "-s", "910b3"), ("exec", "/bin/false"),
    ))]  # fmt: skip
