"""Times what people wait for, against the limits that we promise: `python benchmarks/speed.py`.

Every figure is the best of several, each in a fresh process, because the limits are about the
program and not about what else the machine does.  Exits 1 when a limit is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPEATS = 5

GROUP_NORM = """
import json, time, npusim
npu = npusim.Device("Ascend910B3")
x, s, g = (npusim.TensorSpec(shape, "bfloat16") for shape in ((32, 512, 4096), (32, 32), (512,)))
start = time.perf_counter()
npu.estimate("aclnnGroupNormBackward", gradOut=x, input=x, mean=s, rstd=s, gamma=g,
             N=32, C=512, HxW=4096, group=32, outputMask=[True, True, True])
print(json.dumps(time.perf_counter() - start))
"""

CROSS_ENTROPY = """
import json, resource, time, npusim
npu = npusim.Device("Ascend910B3")
x = npusim.TensorSpec((2**28,), "float32")
start = time.perf_counter()
npu.estimate("aclnnBinaryCrossEntropyBackward", gradOutput=x, self=x, target=x,
             weightOptional=None, reduction=0)
seconds = time.perf_counter() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

NUMBERS = """
import json, time, numpy as np, npusim
rng = np.random.default_rng(0)
go, x, w = (rng.random(2**24, dtype=np.float32) for _ in range(3))
y = (rng.random(2**24, dtype=np.float32) < 0.5).astype(np.float32)
def plain():
    return go * w * (x - y) / np.maximum(x * (1 - x), np.float32(1e-12))
npu = npusim.Device("Ascend910B3")
def ours():
    return npu.run("aclnnBinaryCrossEntropyBackward", gradOutput=go, self=x, target=y,
                   weightOptional=w, reduction=0).outputs["out"]
def best(work):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
np.testing.assert_allclose(ours(), plain(), rtol=1e-5)
print(json.dumps([best(ours), best(plain)]))
"""

# What follows is one call each; the time includes what its first use imports.
ESTIMATE = """
import json, time, npusim
from npusim import TensorSpec as T
npu = npusim.Device("Ascend910B3")
start = time.perf_counter()
npu.estimate({call})
print(json.dumps(time.perf_counter() - start))
"""
LARGE_CALLS = {
    "RoiAlignV2Backward 1000 boxes, 256 ch., ratio 2": """
        "aclnnRoiAlignV2Backward", gradOutput=T((1000, 256, 7, 7), "float32", "NCHW"),
        boxes=T((1000, 5), "float32"), inputShape=[1, 256, 200, 272], pooledHeight=7,
        pooledWidth=7, spatialScale=0.25, samplingRatio=2, aligned=True""",
    "RoiAlignV2Backward 1000 boxes, 256 ch., adaptive": """
        "aclnnRoiAlignV2Backward", gradOutput=T((1000, 256, 7, 7), "float32", "NCHW"),
        boxes=T((1000, 5), "float32"), inputShape=[1, 256, 200, 272], pooledHeight=7,
        pooledWidth=7, spatialScale=0.25, samplingRatio=0, aligned=True""",
    "UpsampleNearestExact1dBackward 64x256x4096 < 8192": """
        "aclnnUpsampleNearestExact1dBackward", gradOutput=T((64, 256, 8192), "bfloat16"),
        outputSize=[8192], inputSize=[64, 256, 4096], scales=0.0""",
    "MultiScaleDeformableAttentionGrad 20000 queries": """
        "aclnnMultiScaleDeformableAttentionGrad", value=T((1, 32300, 8, 32), "float32"),
        spatialShape=T((4, 2), "int32"), levelStartIndex=T((4,), "int32"),
        location=T((1, 20000, 8, 4, 4, 2), "float32"),
        attnWeight=T((1, 20000, 8, 4, 4), "float32"), gradOutput=T((1, 20000, 256), "float32")""",
}

ROI_ALIGN = """
import json, sys, time, numpy as np, npusim
sys.path.append("FOLDER")
import roi_align
rng = np.random.default_rng(0)
middle, size = rng.uniform(0, (1088, 800), (512, 2)), rng.uniform(8, 120, (512, 2))
corners = (np.zeros((512, 1)), middle - size / 2, middle + size / 2)
boxes = np.concatenate(corners, axis=1).astype(np.float32)
grad = rng.standard_normal((512, 256, 7, 7), dtype=np.float32)
def plain():
    return roi_align.gradient(grad, boxes, (1, 256, 200, 272), 0.25, 2)
npu = npusim.Device("Ascend910B3")
def ours():
    return npu.run("aclnnRoiAlignV2Backward", gradOutput=grad, boxes=boxes,
                   inputShape=[1, 256, 200, 272], pooledHeight=7, pooledWidth=7, spatialScale=0.25,
                   samplingRatio=2, aligned=True).outputs["gradInput"]
def timed(work):
    start = time.perf_counter()
    return work(), time.perf_counter() - start
(found, ours_s), (wanted, plain_s) = timed(ours), timed(plain)
np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-5 * np.abs(wanted).max())
print(json.dumps([ours_s, plain_s]))
""".replace("FOLDER", str(Path(__file__).parent))


@dataclass(frozen=True)
class Figure:
    """One measured value and the most that it may be."""

    what: str
    value: float
    limit: float
    unit: str

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        value = f"{self.value:>8.3f} {self.unit:<4} (at most {self.limit:.3g})"
        return f"{self.what:<60} {value:<32} {'ok' if self.ok else 'TOO SLOW'}"


def process_seconds(*words: str) -> float:
    """The wall time of a command, the best of several."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def told_by(code: str) -> list[float]:
    """What the code prints as JSON, the best of several processes, number by number."""
    results = []
    for _ in range(REPEATS):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(done.stdout)
        results.append(result if isinstance(result, list) else [result])
    return [min(values) for values in zip(*results, strict=True)]


def figures() -> Iterator[Figure]:
    """Everything that has a limit."""
    start_up = process_seconds("-m", "npusim", "--help")
    imports = process_seconds("-c", "import numpy, pydantic")
    yield Figure("npusim --help / import numpy, pydantic", start_up / imports, 2.5, "x")
    (seconds,) = told_by(GROUP_NORM)
    yield Figure("estimate GroupNormBackward bf16 32x512x4096 / 32", seconds, 0.5, "s")
    seconds, peak_mib = told_by(CROSS_ENTROPY)
    yield Figure("estimate BinaryCrossEntropyBackward 2**28", seconds, 0.5, "s")
    yield Figure("  peak memory of the process", peak_mib, 200, "MiB")
    ours, plain = told_by(NUMBERS)
    yield Figure("run BinaryCrossEntropyBackward 2**24 fp32 / NumPy", ours / plain, 5, "x")
    yield Figure("  in seconds", ours, 5 * plain, "s")
    for words, call in LARGE_CALLS.items():
        (seconds,) = told_by(ESTIMATE.format(call=call.strip()))
        yield Figure(f"estimate {words}", seconds, 2, "s")
    ours, plain = told_by(ROI_ALIGN)
    yield Figure("run RoiAlignV2Backward 512 boxes, 256 ch. / NumPy", ours / plain, 60, "x")
    yield Figure("  in seconds", ours, 60 * plain, "s")


def main() -> int:
    missed = 0
    for figure in figures():
        print(figure, flush=True)
        missed += not figure.ok
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
