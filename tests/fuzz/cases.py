"""One case from one seed: a command with its files, or a call of the Python API."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from fuzz import odd
from fuzz.api_cases import api_objects
from fuzz.api_verbs import api_verbs
from fuzz.calls import contract, names, optional_arguments
from fuzz.configurations import configurations
from fuzz.edges import numbers
from fuzz.files import folders, onnx_models, onnx_nodes, programs
from fuzz.graphs import onnx_graphs
from fuzz.kernels import cpp_kernels, python_kernels
from fuzz.surroundings import surround
from support.plans import plan

Dice = random.Random
SURROUNDED = 0.15


@dataclass
class Case:
    """Words of a command line, or else a call; `files` are written beside it."""

    seed: int
    kind: str
    words: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    call: Callable[[], object] | None = None
    shown: str = ""
    cpu_s: int = 10  # a hang beyond that
    around: Callable[[], None] | None = None  # what is odd about the process, done before it runs

    def __str__(self) -> str:
        return f"{self.seed} {self.kind}: {self.shown or self.words!r}"


def case(seed: int, only: str = "") -> Case:
    """The case of a seed, always the same; of one kind (`onnx_graphs`) where it is given."""
    dice = Dice(seed)
    made = Case(seed, "")
    chosen = [each for each in MAKERS if only in ("", each[0].__name__)]
    makers, weights = zip(*chosen, strict=True)
    make = dice.choices(makers, weights)[0]
    made.kind = make.__name__
    make(dice, made)
    made.words = [word.replace("\0", "") for word in made.words]  # no command line has it
    if made.words and dice.random() < SURROUNDED:
        state = dice.getrandbits(64)
        made.around = lambda: surround(Dice(state))
    return made


# -- operators -------------------------------------------------------------------------------------


@cache
def _proper() -> tuple[tuple[str, Mapping[str, Any]], ...]:
    from support.standard_calls import CALLS

    return tuple((op, arguments) for op, arguments in _pairs(CALLS))


def _pairs(calls: Any) -> Any:
    for entry in calls.items() if isinstance(calls, dict) else calls:
        name, arguments = entry[0], entry[1]
        if isinstance(arguments, Mapping):
            yield name, arguments


def _attribute(dice: Dice, kind: str) -> str:
    if dice.random() < 0.15:
        return str(odd.scalar(dice))
    numbers = ("0", "1", "-1", "2", "3", "8", "64")
    if kind.endswith("_array"):
        pool = ("true", "false") if kind == "bool_array" else numbers
        return ",".join(dice.choice(pool) for _ in range(dice.choice((0, 1, 2, 3, 4))))
    if kind == "bool":
        return dice.choice(("true", "false"))
    return dice.choice((*numbers, "0.5", "1e-5", "mean", "none", "tanh"))


def _call(dice: Dice) -> tuple[str, list[str]]:
    """An operator and its arguments: random ones, or proper ones with something changed."""
    if dice.random() < 0.4 and _proper():
        name, arguments = dice.choice(_proper())
        words = {key: _text(each) for key, each in arguments.items()}
        for _ in range(dice.choice((0, 1, 1, 2))):
            key = dice.choice(list(words))
            act = dice.randrange(4)
            if act == 0:
                del words[key]
            else:
                words[key] = odd.tensor(dice) if "[" in words[key] else str(odd.scalar(dice))
            if not words:
                break
        return name, [f"{key}={text}" for key, text in words.items()]
    name = dice.choice(names()) if dice.random() < 0.95 else str(odd.scalar(dice))
    known = contract(name)
    words = {}
    shape = odd.tensor(dice)
    for parameter in known.parameters if known else ():
        if dice.random() < (0.7 if parameter.io == "out" or parameter.optional else 0.05):
            continue
        if parameter.kind == "tensor":
            words[parameter.name] = shape if dice.random() < 0.7 else odd.tensor(dice)
        else:
            words[parameter.name] = _attribute(dice, parameter.kind)
        if dice.random() < 0.04:
            words[parameter.name] = dice.choice(("null", str(odd.scalar(dice))))
    return name, [f"{key}={text}" for key, text in words.items()]


def _text(value: Any) -> str:
    from npusim.values.spelling import tensor_text

    if hasattr(value, "shape") and hasattr(value, "format"):
        return tensor_text(value)
    if hasattr(value, "shape"):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _options(dice: Dice, made: Case, *choices: tuple[str, ...]) -> None:
    for name, *values in choices:
        if dice.random() < 0.12:
            made.words.append(name)
            if values:
                is_odd = dice.random() < 0.3
                made.words.append(str(odd.scalar(dice)) if is_odd else dice.choice(values))


def operators(dice: Dice, made: Case) -> None:
    verb = dice.choice(("check", "estimate", "estimate", "run", "run", "trace", "report"))
    name, words = _call(dice)
    made.words = [verb, name, *words, "-s", odd.chip(dice)]
    if verb == "report":
        made.words += ["-o", dice.choice(("a.html", "a.md"))]
    _options(
        dice, made, ("--json",), ("--l2", "cold", "warm", "in_graph"), ("--exact",), ("--force",),
        ("-n", "all", "0", "0-3", "0-99999999999"), ("-o", "out", "out.npz", "/dev/null", "x" * 300),
        ("--format", "msprof", "npz"), ("--timestamp", "20260102030405"), ("--seed", "0", "5"),
        ("--assume", "a=1", "samples_per_bin=4"),
    )  # fmt: skip


# -- files -----------------------------------------------------------------------------------------


def _dumped(dice: Dice, content: Any) -> bytes:
    """YAML of a mapping, changed here and there, sometimes bent as text."""
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
        content = odd.changed(dice, content)
    text = yaml.safe_dump(content, allow_unicode=dice.random() < 0.5).encode("utf-8", "replace")
    if dice.random() < 0.2:
        text = odd.bent(dice, text)
    if dice.random() < 0.05:
        text = dice.choice(_BOMBS)
    if dice.random() < 0.05:
        lines = text.splitlines()
        odd_line = dice.choice(_LINES)
        lines.insert(dice.randrange(len(lines) + 1), odd_line)
        text = b"\n".join(lines)
    return text


_BOMBS = (
    b"a: " + b"[" * 30_000,
    b"a0: &a0 [1]\n" + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)),
    b"a: &a [*a]",
    b"calls: &c [*c]",
    b"\xff\xfe",
    b"a: " + b"9" * 5000,
)  # fmt: skip
_LINES = (b"title: 2001-99-99", b"x: !!int abc", b"x: !!python/object:os.system x", b"<<: *x", b"\t- a",
          b"title: !!timestamp abc", b"title: !!binary abc", b"? [a]", b"x: !!set {a}", b"name: =")  # fmt: skip


def plans(dice: Dice, made: Case) -> None:
    content = plan(simulation={"runs": 2, "requests": 50, "seed": 1})
    made.files["p.yaml"] = _dumped(dice, content)
    made.words = ["plan", "p.yaml"]
    _options(
        dice, made, ("--json",), ("--md", "a.md", "p.yaml"), ("--html", "a.html"), ("--seed", "3")
    )


MODEL = {
    "name": "m",
    "batch": 2,
    "variables": {"C": 8, "HW": "{4*4}"},
    "memory": {"weights_bytes": 5, "activation_bytes": "{B*4}"},
    "host_dispatch_us": 1.5,
    "calls": [
        {"op": "aclnnRelu", "count": 4, "arguments": {"self": "fp16[{B},{C}]"}},
        {
            "op": "Add",
            "inputs": ["fp16[{B},{HW}]"] * 2,
            "outputs": ["fp16[{B},{HW}]"],
            "weights": [1],
        },
        {
            "op": "Softmax",
            "inputs": ["fp32[4,8]"],
            "outputs": ["fp32[4,8]"],
            "attributes": {"axes": [1]},
        },
        {"op": "Unknown", "inputs": ["fp16[4]"], "outputs": ["fp16[4]"], "measured_us": 3.5},
    ],
}


def models(dice: Dice, made: Case) -> None:
    made.files["m.yaml"] = _dumped(dice, MODEL)
    if dice.random() < 0.2:
        made.words = [
            "recommend",
            "m.yaml",
            "--rate",
            "50",
            "--slo",
            "20",
            "-s",
            dice.choice(odd.CHIPS[:7]),
        ]
        _options(
            dice,
            made,
            ("--quantile", "p99"),
            ("--max-batch", "4"),
            ("--items", "2"),
            ("--seed", "1"),
        )
        return
    made.words = ["model", "m.yaml", "-s", odd.chip(dice)]
    _options(
        dice, made, ("--json",), ("--batch", "4", "0"), ("--top", "3"), ("--csv", "a.csv", "m.yaml"),
        ("--l2", "order", "busy", "cold"), ("--dispatch-us", "1"), ("--step", "1"),
        ("--measured-on", "910b3"),
    )  # fmt: skip


SWEEP = {
    "products": ["Ascend910B3", "Ascend310P3"],
    "axes": {"N": [1, 8], "C": {"from": 4, "to": 16, "times": 2}, "D": {"from": 1, "to": 3, "step": 1}},
    "l2": "cold",
    "calls": [
        {"op": ["aclnnRelu", "Relu"], "arguments": {"self": "fp16[{N},{C},{D * 2}]"}},
        {"op": "MatMulV3", "points": [{"K": 16}], "arguments": {"x1": "fp16[{N},{K}]", "x2": "fp16[{K},{C}]"}},
    ],
}  # fmt: skip


def sweeps(dice: Dice, made: Case) -> None:
    made.files["s.yaml"] = _dumped(dice, SWEEP)
    if dice.random() < 0.2:
        line = b'{"key": "a", "index": 0, "op": "x", "soc": "y", "axes": {}, "arguments": {}, "status": "ok"}\n'
        made.files["s.jsonl"] = odd.bent(dice, line * 3)
    made.words = ["sweep", "s.yaml", "--workers", "1"]
    _options(
        dice, made, ("--json",), ("--resume",), ("--force",), ("-o", "a.jsonl", "s.yaml"),
        ("--csv", "a.csv", "a.jsonl", "s.jsonl"), ("--plot", "a.svg"), ("--x", "N"), ("--y", "C"),
        ("-s", "910b3"), ("--l2", "warm"),
    )  # fmt: skip


PROFILE = {"inherits": "Ascend910B3", "name": "Mine"}
OWN = {"source": "own_statement", "confidence": "assumed"}
GROUPS = {
    "cores": ("ai_cores", "cube_cores", "vector_cores", "ai_cpus", "extra_vector_cores"),
    "clocks": ("cube_mhz", "vector_mhz"),
    "buffers": (
        "ub_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes", "block_bytes", "ub_bank_groups",
        "ub_banks", "bias_table_bytes", "fixpipe_buffer_bytes",
    ),
    "memory": (
        "capacity_bytes", "hbm_nominal_gbps", "hbm_sustained_fraction", "hbm_turnaround_share", "hbm_latency_cycles", "l2_bytes",
        "l2_gbps", "l2_write_fraction", "l2_line_bytes", "l2_sector_bytes", "l2_ways", "l2_latency_cycles",
        "atomic_rate_fraction", "atomic_conflict_cycles", "load_conflict_cycles", "l2_in_graph_share", "l2_recent_share", "l2_reuse_fraction",
    ),
    "vector": ("repeat_bytes", "start_scale", "simple_scale", "unaligned_floor_cycles"),
    "scalar": ("alu_cycles", "issue_cycles", "loop_cycles", "gm_load_cycles"),
    "cube": ("fractal_m", "fractal_n", "mad_start_cycles", "mte1_setup_cycles"),
    "launch": ("base_us", "per_block_us", "elementwise_core_bytes", "kernel_head_cycles"),
    "features": ("bfloat16", "syncall_hardware", "cross_core_flag"),
    "software": ("compiled_for_shape", "matmul_generation"),
}  # fmt: skip
EXTREMES = (
    1,
    2,
    3,
    8,
    16,
    31,
    32,
    64,
    256,
    1000,
    1024,
    4096,
    2**20,
    2**40,
    0.5,
    1e-9,
    1e9,
    True,
    0,
    -1,
)
CALLS = (
    ("aclnnRelu", "self=fp16[64,100]"),
    ("aclnnMatmul", "self=fp16[33,64]", "mat2=fp16[64,47]", "cubeMathType=0"),
    ("BinaryCrossEntropyBackward", "gradOutput=fp32[8,64]", "self=fp32[8,64]", "target=fp32[8,64]",
     "weightOptional=null", "reduction=0"),
    ("SoftmaxV2", "x=fp16[17,129]"),
    ("LayerNormV3", "x=fp16[17,129]", "gamma=fp16[129]", "beta=fp16[129]"),
    ("TransData", "src=fp16[16,33]:ND"),
    ("RoiAlignV2Backward", "gradOutput=fp32[2,3,2,4]:NCHW", "boxes=fp32[2,5]", "inputShape=1,3,6,7",
     "pooledHeight=2", "pooledWidth=4", "spatialScale=0.5", "samplingRatio=2", "aligned=false"),
)  # fmt: skip


def profiles(dice: Dice, made: Case) -> None:
    content: dict[str, Any] = dict(PROFILE)
    for _ in range(dice.choice((1, 1, 2))):
        group = dice.choice(list(GROUPS))
        key = dice.choice(GROUPS[group])
        number = dice.choice(EXTREMES) if dice.random() < 0.9 else odd.value(dice)
        content[group] = {key: number, "provenance": {key: OWN}}
    if dice.random() < 0.2:
        made.files["chip.yaml"] = _dumped(dice, content)
    else:
        made.files["chip.yaml"] = yaml.safe_dump(content).encode("utf-8", "replace")
    if dice.random() < 0.2:
        made.words = ["profiles", "show", "chip.yaml"]
    else:
        made.words = [
            dice.choice(("estimate", "run", "check")),
            *dice.choice(CALLS),
            "-s",
            "chip.yaml",
        ]


@cache
def _numbers() -> tuple[tuple[str, ...], ...]:
    """Every number of a profile, as the path of its keys."""
    from npusim import load_profile

    def numbers(content: Any, path: tuple[str, ...] = ()) -> Any:
        if isinstance(content, Mapping):
            for key, value in content.items():
                yield from numbers(value, (*path, key))
        elif isinstance(content, int | float) and not isinstance(content, bool):
            yield path

    return tuple(numbers(load_profile("910b3").model_dump()))


def extremes(dice: Dice, made: Case) -> None:
    """A chip with one or two numbers at the end of what they may be, or beyond it."""
    content: dict[str, Any] = {
        **PROFILE,
        "inherits": dice.choice(("Ascend910B3", "Ascend310P3", "Ascend910A")),
    }
    for _ in range(dice.choice((1, 1, 2))):
        *groups, key = dice.choice([path for path in _numbers() if len(path) > 1])
        part = content.setdefault(groups[0], {})
        part["provenance"] = {"default": OWN}
        for group in groups[1:]:
            part = part.setdefault(group, {})
        part[key] = dice.choice((*EDGES, *EXTREMES, *odd.NUMBERS))
    made.files["chip.yaml"] = yaml.safe_dump(content).encode()
    made.words = [
        dice.choice(("estimate", "run")),
        *dice.choice(CALLS),
        "-s",
        "chip.yaml",
        "--json",
    ]


EDGES = (1e-6, 1e-3, 0.999, 1.0, 999_999, 1_000_000, 1e6, 1e9, 2**20, 2**50, 100_000, 4096, 512)
MEASURED = (
    b"chip,op,op_family,impl,input_shapes,input_dtypes,input_formats,output_shapes,output_dtypes,"
    b"output_formats,attrs,duration_us,trust,workload\n"
    b'910B3,Add,Elementwise,builtin,"4,64;4,64",FLOAT16;FLOAT16,ND;ND,"4,64",FLOAT16,ND,,2.5,A,w\n'
    b'910 gen1,Cast,Cast,builtin,"100",FLOAT,ND,"100",FLOAT16,ND,dst_type=1,3.5,A,w\n'
    b'910B3,Softmax,Softmax,builtin,"4,64",FLOAT,ND,"4,64",FLOAT,ND,"{""axes"": [1]}",3,A,w\n'
    b'X,ReduceSum,Reduction,builtin,"4,64;",FLOAT;INT32,ND;ND,scalar,FLOAT,ND,,3,A,w\n'
)
KERNELS = (
    b"Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Num,Input Shapes,Input Data Types,"
    b"Input Formats,Output Shapes,Output Data Types,Output Formats\n"
    b'1,aclnnAdd_x,Add,AI_VECTOR_CORE,0,2.5,8,"""4,64;4,64""",FLOAT16;FLOAT16,ND;ND,"""4,64""",FLOAT16,ND\n'
    b"1,hcom_x,hcom_allReduce_,COMMUNICATION,0,9,N/A,N/A,N/A,N/A,N/A,N/A,N/A\n"
    b'2,Cast,Cast,AI_CPU,0,1,1,"""3""",FLOAT,ND,"""3""",DT_BF16,ND\n'
)


def _table(dice: Dice, whole: bytes) -> bytes:
    if dice.random() < 0.5:
        rows = [line.split(b",") for line in whole.splitlines()]
        for _ in range(dice.choice((1, 2, 3))):
            row = dice.choice(rows[1:] if dice.random() < 0.9 else rows)
            act = dice.randrange(8)
            if act == 0 and row:
                del row[dice.randrange(len(row)) :]
            elif row:
                row[dice.randrange(len(row))] = str(odd.scalar(dice)).encode(
                    "utf-8", "surrogatepass"
                )
        return b"\n".join(b",".join(row) for row in rows) + b"\n"
    return odd.bent(dice, whole)


def tables(dice: Dice, made: Case) -> None:
    act = dice.randrange(4)
    if act == 0:
        made.files["k.csv"] = _table(dice, KERNELS)
        made.words = ["model", "k.csv", "-s", odd.chip(dice)]
        _options(
            dice,
            made,
            ("--step", "1", "2"),
            ("--csv", "a.csv", "k.csv"),
            ("--measured-on", "910b3"),
        )
        return
    if act == 1:
        made.files["k.csv"] = _table(dice, KERNELS)
        made.files["list.txt"] = odd.bent(dice, b"Cast fp32 -> bf16\nAdd fp16,fp16 # x\n")
        made.words = ["check", "--model", dice.choice(("k.csv", "list.txt")), "-s", odd.chip(dice)]
        return
    content = _table(dice, MEASURED)
    name = "v.csv"
    if dice.random() < 0.3:
        packed = gzip.compress(content, mtime=0)
        name, content = "v.csv.gz", odd.bent(dice, packed) if dice.random() < 0.5 else packed
    if dice.random() < 0.02:
        name, content = "v.csv.gz", gzip.compress(b"\0" * (40 << 20), 1, mtime=0)
    made.files[name] = content
    made.words = ["validate", name, "--workers", dice.choice(("1", "1", "1", "-1", "x"))]
    _options(
        dice, made, ("--l2", "cold"), ("--worst", "3", "-1"), ("--csv", "a.csv", name), ("--json",)
    )


def traces(dice: Dice, made: Case) -> None:
    lines = [f"2023-11-16 18:17:{s:02}.5,100,{s}" for s in range(60)]
    whole = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines) + "\n"
    content = plan(simulation={"runs": 1, "requests": 50})
    workload = content["workload"]
    workload["arrivals"] = {"kind": "trace", "file": "t.csv", "window_requests": 20}
    del workload["mean_requests_per_s"], workload["peak_requests_per_s"]
    made.files["t.csv"] = odd.bent(dice, whole.encode())
    made.files["p.yaml"] = yaml.safe_dump(content).encode()
    made.words = ["plan", "p.yaml"]


def arrays(dice: Dice, made: Case) -> None:
    import numpy as np

    stream = io.BytesIO()
    array = np.zeros((2, 3), dice.choice(("f2", "f4", "i4", "V2", "O", "U3")))
    if dice.random() < 0.5:
        np.save(stream, array, allow_pickle=True)
        content = stream.getvalue()
        if dice.random() < 0.5:
            shape = dice.choice(("(4611686018427387904,)", "(-1,)", "((((", "(99999999999,)", "()"))
            content = content.replace(b"(2, 3)", shape.encode().ljust(6))
        made.files["x.npy"] = odd.bent(dice, content) if dice.random() < 0.7 else content
        made.words = ["run", "aclnnRelu", "self=x.npy", "-s", "910b3"]
        return
    np.savez(stream, self=array, __dtypes__=np.array(json.dumps(odd.value(dice), default=str)))
    content = stream.getvalue()
    if dice.random() < 0.1:
        with zipfile.ZipFile(
            stream := io.BytesIO(), "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive:
            archive.writestr("self.npy", bytes(8 << 20))
        content = stream.getvalue()
    made.files["x.npz"] = odd.bent(dice, content) if dice.random() < 0.7 else content
    made.words = ["run", "aclnnRelu", "--inputs", "x.npz", "-s", "910b3"]
    _options(dice, made, ("-o", "y.npz", "x.npz"), ("--force",))


CASE = {
    "op": "aclnnRelu",
    "inputs": {"self": {"dtype": "float32", "shape": [2, 2], "data": [[1.5, "nan"], [-2, "inf"]]}},
    "outputs": {"out": {"dtype": "float32", "shape": [2, 2], "data": [1.5, 0, 0, "inf"]}},
    "attrs": {},
    "tolerance": {"rtol": 1e-3, "atol": 0},
    "status": 0,
}


def case_files(dice: Dice, made: Case) -> None:
    content: Any = CASE if dice.random() < 0.5 else {"cases": [CASE, CASE]}
    for _ in range(dice.choice((0, 1, 2))):
        content = odd.changed(dice, content)
    text = json.dumps(content).encode()
    if dice.random() < 0.3:
        text = odd.bent(dice, text)
    if dice.random() < 0.05:
        text = dice.choice((b"[" * 99_999, b'{"a":' * 5000, b"[" + b"9" * 5000 + b"]", b"\xff"))
    made.files["c.json"] = text
    made.words = ["run", "--case", "c.json", "-s", odd.chip(dice)]
    _options(dice, made, ("--json",), ("-o", "o.npz", "c.json"), ("--force",))


def words(dice: Dice, made: Case) -> None:
    """Verbs with words that may mean nothing."""
    verbs = (
        ["ops"], ["ops", "list"], ["ops", "show"], ["ops", "diff"], ["ops", "matrix"], ["ops", "search"],
        ["profiles"], ["profiles", "show"], ["check"], ["estimate"], ["run"], ["trace"], ["sweep"],
        ["plan"], ["recommend"], ["model"], ["report"], ["validate"], ["exec"], ["cc"], ["capi"], [],
    )  # fmt: skip
    made.words = list(dice.choice(verbs))
    pool = (
        *odd.TEXTS,
        *odd.CHIPS,
        "Relu",
        "aclnnRelu",
        "self=fp16[4]",
        "--json",
        "-s",
        "--help",
        "-o",
        "x.y",
    )
    made.words += [dice.choice(pool) for _ in range(dice.choice((0, 1, 2, 3)))]
    made.files["lock.yaml"] = b"a: 1"


def catalogue(dice: Dice, made: Case) -> None:
    """What is asked of the catalogue, and of pages about chips and operators."""
    name = dice.choice(
        (*names()[:40], *names()[-40:], "aclnnFlashAttentionScore", "x", str(odd.scalar(dice)))
    )
    made.words = [
        *dice.choice((
            ("ops",), ("ops", "show", name), ("ops", "list"), ("ops", "diff", odd.chip(dice), odd.chip(dice)),
            ("ops", "matrix"), ("ops", "summary"), ("ops", "summary", "--check", "x.csv"), ("profiles", "show", odd.chip(dice)),
            ("profiles", "list"), ("profiles",), ("capi",), ("check", name), ("demo",),
        ))
    ]  # fmt: skip
    made.files["x.csv"] = odd.bent(dice, b"a,b\n1,2\n")
    _options(
        dice, made, ("--json",), ("--search", "norm bf16", "'"), ("-s", "910b3", "all", "A2"), ("--format", "csv", "html"),
        ("-o", "out.csv", "x.csv", "/dev/full", "no/such"), ("--force",), ("--lib-dir",),
    )  # fmt: skip


# -- the Python API --------------------------------------------------------------------------------


def api(dice: Dice, made: Case) -> None:
    name = dice.choice(names()) if dice.random() < 0.8 else odd.value(dice)
    chip = dice.choice(odd.CHIPS[:3]) if dice.random() < 0.8 else odd.value(dice)
    method = dice.choice(
        ("run", "estimate", "check", "get_workspace_size", "launch", "spec", "stream")
    )
    options = {key: odd.value(dice) for key in ("exact", "l2", "memo") if dice.random() < 0.08}
    arguments: dict[str, Any] = {}
    known = contract(name) if isinstance(name, str) else None
    for parameter in known.parameters if known else ():
        if dice.random() < 0.8:
            arguments[parameter.name] = _api_value(dice, parameter.kind)
    if dice.random() < 0.1:
        arguments[str(odd.scalar(dice))] = odd.value(dice)
    if dice.random() < 0.05:
        arguments[dice.choice(("stream", "assume"))] = odd.value(dice)
    shape, kind, layout = odd.value(dice), odd.value(dice), odd.value(dice)
    made.shown = (
        f"Device({chip!r}, **{options!r}).{method}({name!r}, **{arguments!r:.500}) {shape!r}"
    )

    def call() -> object:
        from npusim import Device, TensorSpec

        if method == "spec":
            return str(TensorSpec(shape, kind, format=layout))
        device = Device(chip, **options)
        if method == "stream":
            stream = device.create_stream()
            return [stream.synchronize(), device.estimate(name, **arguments)]
        return getattr(device, method)(name, **arguments)

    made.call = call


def _api_value(dice: Dice, kind: str) -> Any:
    import numpy as np

    from npusim import TensorSpec

    act = dice.randrange(8)
    if act == 0:
        return odd.value(dice)
    if kind != "tensor":
        return {"int_array": [1, 2], "bool_array": [True, False], "bool": True}.get(
            kind, dice.choice((0, 1, 2))
        )
    shape = tuple(dice.choice(odd.SIZES[:8]) for _ in range(dice.choice((0, 1, 2, 2, 3, 4))))
    if act < 3:
        return TensorSpec(shape, dice.choice(odd.KINDS[:5]))
    array = np.ones(shape, dice.choice(("f2", "f4", "i4", "i8", "?", "u1", "c8", "f8")))
    return array[..., ::-1] if act == 7 and shape else array


MAKERS: tuple[tuple[Callable[[Dice, Case], None], float], ...] = (
    (operators, 30), (plans, 8), (models, 9), (sweeps, 6), (profiles, 9), (tables, 10), (traces, 3),
    (arrays, 6), (case_files, 6), (words, 5), (api, 10), (api_objects, 10), (catalogue, 4), (extremes, 6),
    (onnx_models, 2), (onnx_nodes, 2), (onnx_graphs, 6), (folders, 2), (programs, 0.6), (api_verbs, 8),
    (configurations, 6), (optional_arguments, 6), (numbers, 6), (python_kernels, 6), (cpp_kernels, 0.4),
)  # fmt: skip
