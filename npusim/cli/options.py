"""The options that several verbs share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.cli.completion import chips_beginning, operators_beginning

SOC_FLAGS = ("-s", "--soc-version", "--soc_version", "--soc")

Operator = Annotated[
    str,
    typer.Argument(
        metavar="OP",
        autocompletion=operators_beginning,
        help="The operator, e.g. aclnnGroupNormBackward or GroupNormBackward, or an operator "
        "type such as MatMulV3; `npusim ops` lists them.",
    ),
]
OptionalOperator = Annotated[
    str | None,
    typer.Argument(
        metavar="[OP]",
        autocompletion=operators_beginning,
        help="The operator: aclnnGroupNormBackward, Add, MatMulV2 ...",
    ),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="A whole model instead of an operator: a profiler's CSV or folder, ONNX, list.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE...",
        help="The parameters, named as on the aclnn page. Tensors: gradOut=bf16[2,64,4096], "
        "x=fp16[2,3,8,8]:NCHW or x=FILE.npy; lists: outputMask=true,true,false; "
        "null pointer: gamma=null.",
    ),
]
Socs = Annotated[
    list[str] | None,
    typer.Option(
        *SOC_FLAGS,
        metavar="SOC",
        autocompletion=chips_beginning,
        help="A chip (Ascend910B3, 310p3), an Atlas product, the path of your own profile, or "
        "'all'; several with commas, or given several times.",
    ),
]
ProgramSoc = Annotated[
    str | None,
    typer.Option(
        *SOC_FLAGS,
        metavar="SOC",
        envvar="NPUSIM_SOC",
        autocompletion=chips_beginning,
        help="The chip to run on.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
JsonFile = Annotated[  # `--json FILE.json` is another spelling of it, see app.as_words
    Path | None, typer.Option("--json-file", metavar="FILE", help="Write the JSON to a file.")
]
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
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Say why each kernel takes so long, and what would help."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where to write."),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write an HTML report."),
]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar="FOLDER",
        help="Write every figure of the report: .svg, .png, and its numbers as .csv.",
    ),
]
MeasuredOn = Annotated[
    str | None,
    typer.Option(
        "--measured-on",
        metavar="SOC",
        help="The chip that the file's times were measured on: carries what isn't simulated over "
        "to other chips.",
    ),
]
Links = Annotated[
    str | None,
    typer.Option("--interconnect", metavar="NAME", help="Other links than the product's."),
]
ProfileFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A kernel_details.csv of torch_npu, an op_summary_*.csv of msprof, or the folder of "
        "either.",
    ),
]
StepId = Annotated[str, typer.Option("--step", help="The Step Id of a profile with several steps.")]
DeviceId = Annotated[str, typer.Option("--device-id", help="The device of a profile of several.")]
Top = Annotated[int, typer.Option("--top", min=1, help="Operators to list.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Processes; 0: one per core.")]
