"""How times grow with what is asked: `python benchmarks/growth.py [PART ...]` prints exponents.

Seconds of a processor, the least of several, for sizes that double or grow tenfold; the exponent is
the slope of their logarithms over the upper half of the sizes, where constant parts count least.
Linear work has 1, what is answered in closed form about 0. Parts are `operators`, `networks`,
`serving`, `training`, `plans`; `--most SECONDS` leaves larger sizes out once one took that long.
"""

from __future__ import annotations

import argparse
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from npusim import Device, TensorSpec, load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks

ROOT = Path(__file__).parent.parent
CHIP = "Ascend910B3"
MOST_S = 60.0
_OF_A_SAMPLE = 3  # times a small size is timed
_SMALL_S = 0.5
# No card holds the largest tensors, so they are asked of a chip with more memory.
_ROOMY = f"""
inherits: {CHIP}
name: Roomy
memory:
  capacity_bytes: 1125899906842624
  provenance:
    capacity_bytes: {{source: own_statement, confidence: assumed}}
"""

Call = tuple[str, dict[str, Any]]


class Series(NamedTuple):
    """What grows, over which sizes of what, and what takes the seconds of one of them."""

    what: str
    unit: str
    sizes: Sequence[int]
    seconds: Callable[[int], float]


def half(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float16")


def rows(elements: int, columns: int) -> tuple[int, int]:
    return max(1, elements // columns), min(elements, columns)


def square(elements: int) -> tuple[int, int]:
    side = 2 ** (int(math.log2(elements)) // 2)
    return side, elements // side


def add(n: int) -> Call:
    return "aclnnAdd", {"self": half(n), "other": half(n), "alpha": 1.0}


def layer_norm(n: int) -> Call:
    shape = rows(n, 4096)
    line = half(shape[1])
    return "aclnnLayerNorm", {
        "input": half(*shape), "normalizedShape": [shape[1]], "weightOptional": line,
        "biasOptional": line, "eps": 1e-5,
    }  # fmt: skip


def softmax(n: int) -> Call:
    return "aclnnSoftmax", {"self": half(*rows(n, 1024)), "dim": -1}


def product(n: int) -> Call:
    high, wide = square(n)
    return "aclnnMatmul", {"self": half(high, wide), "mat2": half(wide, high), "cubeMathType": 0}


def convolution(n: int) -> Call:
    channels = min(256, max(4, n // 2**16))
    side = max(4, min(256, math.isqrt(n // channels)))
    x = TensorSpec((max(1, n // (channels * side * side)), channels, side, side), "float16", "NCHW")
    weight = TensorSpec((channels, channels, 3, 3), "float16", "NCHW")
    return "aclnnConvolution", {
        "input": x, "weight": weight, "bias": None, "stride": [1, 1], "padding": [1, 1],
        "dilation": [1, 1], "transposed": False, "outputPadding": [0, 0], "groups": 1,
        "cubeMathType": 0,
    }  # fmt: skip


def attention(n: int) -> Call:
    length = 2 ** min(16, max(4, int(math.log2(n)) // 2))
    heads = max(1, min(64, n // (length * 128)))
    x = half(max(1, n // (length * heads * 128)), heads, length, 128)
    return "aclnnFlashAttentionScore", {
        "query": x, "key": x, "value": x, "headNum": heads, "inputLayout": "BNSD",
        "scaleValue": 0.088, "keepProb": 1.0, "preTokens": 2147483647, "nextTokens": 2147483647,
        "innerPrecise": 0, "sparseMode": 0,
    }  # fmt: skip


def sort(n: int) -> Call:
    return "aclnnSort", {
        "self": half(*rows(n, 4096)), "stable": False, "dim": -1, "descending": False
    }  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def first(chip: str, call: Callable[[int], Call], size: int) -> float:
    """An operator that nobody has asked for."""
    name, arguments = call(size)
    return timed(lambda: Device(chip).estimate(name, **arguments))


def again(chip: str, call: Callable[[int], Call], size: int) -> float:
    """The same once more."""
    name, arguments = call(size)
    device = Device(chip)
    device.estimate(name, **arguments)
    return timed(lambda: device.estimate(name, **arguments))


def joined(count: int) -> float:
    """A join of so many tensors."""
    profile = load_profile(CHIP)
    tensors = [half(64 + n % 3) for n in range(count)]
    out = half(sum(each.shape[0] for each in tensors))
    task = TaskSpec("ConcatD", tuple(tensors), (out,), {"concat_dim": 0, "N": count})
    return timed(lambda: run_tasks(kernels_of(profile, task), profile))


def command(*words: str) -> float:
    """What a command of npusim takes in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "npusim", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def operators(folder: Path) -> Iterator[Series]:
    chip = str(folder / "roomy.yaml")
    Path(chip).write_text(_ROOMY)
    sizes = [2**power for power in range(10, 37, 2)]
    for call in (add, softmax, layer_norm, product, convolution, attention, sort):
        for how in (first, again):
            name = f"{call.__name__.replace('_', ' ')}, {how.__name__}"
            yield Series(name, "elements", sizes, partial(how, chip, call))
    yield Series("join", "tensors", (1000, 2000, 4000, 8000, 16000), joined)


def networks(folder: Path) -> Iterator[Series]:
    """Blocks of a product and an activation, one behind the other."""
    import onnx  # an extra
    from onnx import TensorProto, helper, numpy_helper

    def model(nodes: int) -> float:
        import numpy as np

        weight = numpy_helper.from_array(np.zeros((256, 256), np.float16), "w")
        names = [f"x{n}" for n in range(nodes + 1)]
        chain = [
            helper.make_node("MatMul", [names[n], "w"], [names[n + 1]])
            if n % 2 == 0
            else helper.make_node("Relu", [names[n]], [names[n + 1]])
            for n in range(nodes)
        ]
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT16, (64, 256))
            for name in (names[0], names[-1])
        ]
        graph = helper.make_graph(chain, "chain", ends[:1], ends[1:], [weight])
        path = folder / f"chain{nodes}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        return command("model", str(path), "-s", CHIP)

    yield Series("network", "nodes", (1000, 2000, 5000, 10_000, 20_000), model)


def config() -> str:
    return str(ROOT / "reports/data/llm_configs/Qwen3-8B.json")


def serving(_: Path) -> Iterator[Series]:
    def serve(requests: int) -> float:
        words = ("-s", CHIP, "--tp", "8", "--rate", "4", "--requests", str(requests))
        return command("llm", "serve", config(), *words)

    yield Series("requests served", "requests", (1000, 10_000, 100_000, 1_000_000), serve)


def training(_: Path) -> Iterator[Series]:
    def train(cards: int) -> float:
        words = ("-s", CHIP, "--tp", "8", "--pp", "2", "--cards", str(cards))
        return command("llm", "train", config(), *words)

    yield Series("training step", "cards", (16, 128, 1024, 16_384), train)


def plans(folder: Path) -> Iterator[Series]:
    """The plan of the README at multiples of its rates, to some 1,000 cards.

    With runs of so many requests at most: else they grow with the rate, as they have to show so
    many bursts, until all plans take what their budget lets them.
    """
    plans_there = shutil.copytree(ROOT / "reports/plans", folder / "plans")  # with what they name
    text = (plans_there / "detection_head.yaml").read_text(encoding="utf-8")
    text += "simulation: {max_requests: 20000, runs: 3, budget_s: 600}\n"

    def plan(times: int) -> float:
        asked = text
        for rate in (300, 900):
            asked = asked.replace(f": {rate}\n", f": {rate * times}\n")
        copy = plans_there / f"growth_{times}.yaml"
        copy.write_text(asked, encoding="utf-8")
        return command("plan", str(copy), "--md", str(folder / "plan.md"), "--force")

    yield Series("plan", "times the rate", (1, 10, 100), plan)


def measured(series: Series, most_s: float) -> Iterator[tuple[int, float]]:
    """The seconds of each size, up to the first that takes too long."""
    for size in series.sizes:
        seconds = series.seconds(size)
        if seconds < _SMALL_S:
            seconds = min(seconds, *(series.seconds(size) for _ in range(_OF_A_SAMPLE - 1)))
        yield size, seconds
        if seconds > most_s:
            return


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of the logarithms over the upper half of the sizes."""
    logs = [(math.log(size), math.log(max(seconds, 1e-6))) for size, seconds in points]
    upper = logs[min(len(logs) // 2, len(logs) - 2) :]
    means = [sum(column) / len(upper) for column in zip(*upper, strict=True)]
    over = sum((x - means[0]) * (y - means[1]) for x, y in upper)
    return over / sum((x - means[0]) ** 2 for x, _ in upper)


PARTS: dict[str, Callable[[Path], Iterator[Series]]] = {
    each.__name__: each for each in (operators, networks, serving, training, plans)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--most", type=float, default=MOST_S, help="seconds of the largest size")
    asked = parser.parse_args()
    print(f"{'what grows':<28} {'sizes':<32} {'first s':>9} {'last s':>9} {'exponent':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for part in asked.parts or PARTS:
            for series in PARTS[part](Path(folder)):
                points = list(measured(series, asked.most))
                (least, first_s), (largest, last_s) = points[0], points[-1]
                slope = f"{exponent(points):.2f}" if len(points) > 1 else "-"
                sizes = f"{least:,} to {largest:,} {series.unit}"
                print(f"{series.what:<28} {sizes:<32} {first_s:>9.4f} {last_s:>9.3f} {slope:>9}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
