"""The options that several verbs share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Operator = Annotated[
    str,
    typer.Argument(
        metavar="OP",
        help="The operator, e.g. aclnnGroupNormBackward or GroupNormBackward, or an operator "
        "type such as MatMulV3; `npusim ops` lists them.",
    ),
]
OptionalOperator = Annotated[
    str | None,
    typer.Argument(
        metavar="[OP]",
        help="The operator: aclnnGroupNormBackward, Add, MatMulV2 ...",
        show_default=False,
    ),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="A whole model instead of an operator: op_summary or kernel_details CSV, ONNX, list.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE...",
        help="The parameters, named as on the aclnn page. Tensors: gradOut=bf16[2,64,4096], "
        "x=fp16[2,3,8,8]:NCHW or x=FILE.npy; lists: outputMask=true,true,false; "
        "null pointer: gamma=null.",
        show_default=False,
    ),
]
Socs = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--soc-version",
        "--soc_version",
        metavar="SOC",
        help="A chip (Ascend910B3, 310p3), an Atlas product, the path of your own profile, or "
        "'all'; several with commas, or given several times.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Play every repetition instead of jumping ahead: slow.")
]
L2 = Annotated[
    str,
    typer.Option("--l2", help="What L2 holds at the start: cold, warm or in_graph."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME=NUMBER",
        help="A number that only data could tell; the result names those it assumes.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where to write.", show_default=False),
]
