"""The same bytes from every process: whatever the hash seed, the threads of BLAS, the workers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SWEEP = """
products: [Ascend910B3, Ascend310P3]
calls:
  - op: aclnnRelu
    axes: {n: [1000, 4096, 100000]}
    arguments: {self: "fp16[{n}]"}
"""

# Verbs that write what people keep, in one process; small, so that all of them take a few seconds.
SCRIPT = r"""
import sys
from contextlib import redirect_stdout
from npusim.cli import main
workers = sys.argv[1]
norm = ("gradOut=fp16[2,64,100] input=fp16[2,64,100] mean=fp16[2,8] rstd=fp16[2,8] gamma=fp16[64] "
        "N=2 C=64 HxW=100 group=8 outputMask=true,true,true")
sizes = "x1=fp16[300,200] x2=fp16[200,100]"
for name, words in {
    "run": f"run GroupNormBackward -s 910A {norm} -o run.npz --json",
    "product": f"run MatMulV3 -s 910A {sizes} -o product.npz --json",
    "check": f"check GroupNormBackward -s all {norm} --json",
    "estimate": f"estimate MatMulV3 -s all {sizes} --json",
    "trace": f"trace MatMulV3 -s 910b3 {sizes} -o trace.json",
    "page": f"report MatMulV3 -s 910b3 -s 910A {sizes} -o page.html",
    "text": f"report MatMulV3 -s 910b3 {sizes} -o page.md",
    "sweep": f"sweep sweep.yaml -o rows.jsonl --csv rows.csv --workers {workers}",
    "model": "model kernels.csv -s 910b3 -s 310p3 --json",
    "ops": "ops list --json",
}.items():
    with open(f"{name}.out", "w") as out, redirect_stdout(out):
        try:
            main(words.split())
        except SystemExit as done:
            assert not done.code, (name, done.code)
"""

KERNELS = """\
Name,Type,Accelerator Core,Duration(us),Input Shapes,Input Data Types,Input Formats,\
Output Shapes,Output Data Types,Output Formats
a,Add,AI_VECTOR_CORE,3.1,"1024,64;1024,64",FLOAT16;FLOAT16,ND;ND,"1024,64",FLOAT16,ND
b,Gelu,AI_VECTOR_CORE,4.1,"1024,64",FLOAT16,ND,"1024,64",FLOAT16,ND
"""


def written(folder: Path, seed: str, threads: str, workers: str) -> dict[str, bytes]:
    folder.mkdir()
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    (folder / "kernels.csv").write_text(KERNELS, encoding="utf-8")
    names = {"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, workers],
        cwd=folder,
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_every_process_writes_the_same_bytes(tmp_path: Path) -> None:
    first = written(tmp_path / "one", seed="0", threads="1", workers="1")
    other = written(tmp_path / "other", seed="1", threads="2", workers="2")
    assert list(first) == list(other)
    differing = [name for name in first if first[name] != other[name]]
    assert differing == ["sweep.out"]  # which says how long it took
