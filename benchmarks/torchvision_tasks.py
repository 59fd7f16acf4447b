"""Collects what the models of torchvision ask of a chip: tests/data/torchvision_tasks.csv.gz.

    python benchmarks/torchvision_tasks.py export FOLDER     # where torch and torchvision are
    python benchmarks/torchvision_tasks.py collect FOLDER    # where npusim[onnx] is

The first writes an ONNX file for each model (random weights; of detectors the backbone and the
heads, before sizes are decided by data), the second compiles them for a chip of each family, with
a batch of 1 and of 8, and writes every distinct task once.
`tests/graph/test_models_fit.py` asks whether their kernels fit.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "tests" / "data" / "torchvision_tasks.csv.gz"
CHIPS = {"910": "Ascend910A", "310P": "Ascend310P3", "A2": "Ascend910B3"}
BATCHES = (1, 8)
COLUMNS = ("op_type", "inputs", "outputs", "attributes", "families")

_DETECTORS = ("faster", "mask", "keypoint", "retina", "fcos", "ssd")
_LARGE = ("vit_h", "vit_l", "regnet_y_128", "regnet_y_32", "regnet_x_32", "swin_b", "swin_v2_b",
    "convnext_large", "wide_resnet101", "vgg13", "vgg16", "vgg19", "quantized")  # fmt: skip
_SIDES = (("fcn deeplab lraspp", 520), ("inception", 299), ("ssd300", 300), ("ssdlite", 320))


def export(folder: Path) -> None:
    """An ONNX file for each model, those aside whose layers a smaller one of the family has."""
    from torchvision.models import list_models

    warnings.filterwarnings("ignore")
    folder.mkdir(exist_ok=True)
    for name in list_models():
        target = folder / f"{name}.onnx"
        if name.startswith(_LARGE) or target.exists():
            continue
        try:
            _export(name, target)
        except Exception as error:  # noqa: BLE001 - what torch can't export is left out
            sys.stderr.write(f"{name}: {error}\n")


def _export(name: str, target: Path) -> None:
    import torch
    from torchvision.models import get_model

    how = {"weights_backbone": None} if name.startswith((*_DETECTORS, "fcn", "deep", "lr")) else {}
    model = get_model(name, weights=None, **how).eval()
    if name.startswith(_DETECTORS):
        model = _heads(model)
    side = next((size for words, size in _SIDES if name.startswith(tuple(words.split()))), 0)
    side = side or (640 if name.startswith(_DETECTORS) else 224)
    inputs = [torch.zeros(1, 3, side, side)]
    if name.startswith(("mvit", "swin3d", "s3d", "r3d", "mc3", "r2plus")):
        inputs = [torch.zeros(1, 3, 16, *(2 * [112 if "d_18" in name or "mc3" in name else 224]))]
    elif name.startswith("raft"):
        inputs = [torch.zeros(1, 3, 256, 256)] * 2
    partial = target.with_suffix(".part")
    names = ["x", "y"][: len(inputs)]
    torch.onnx.export(model, tuple(inputs), partial, dynamo=False, opset_version=17,
                      dynamic_axes={"x": {0: "N"}}, input_names=names)  # fmt: skip
    partial.rename(target)


def _heads(model: Any) -> Any:
    import torch

    class Heads(torch.nn.Module):
        """A detector up to its heads."""

        def forward(self, x: Any) -> Any:
            maps = model.backbone(x)
            maps = [maps] if isinstance(maps, torch.Tensor) else list(maps.values())
            return model.head(maps) if hasattr(model, "head") else model.rpn.head(maps)

    heads = Heads()
    heads.model = model
    return heads.eval()


def collect(folder: Path) -> None:
    """Every distinct task of the files, and the families whose compiler makes it."""
    from npusim.hardware import load_profile
    from npusim.model.graph_model import read_network
    from npusim.operators.tasks import TaskSpec
    from npusim.values.errors import NpusimError

    found: dict[tuple[str, ...], set[str]] = {}
    for file in sorted(folder.glob("*.onnx")):
        for family, chip in CHIPS.items():
            for batch in BATCHES:
                try:
                    step = read_network(file).at(batch, load_profile(chip))
                except NpusimError as error:
                    sys.stderr.write(f"{file.name}: {error}\n")
                    continue
                for item in step.items:
                    if isinstance(item.work, TaskSpec):
                        found.setdefault(row(item.work), set()).add(family)
    write(found)


def row(task: Any) -> tuple[str, ...]:
    """A task as text: operator, tensors ('-' for one that is absent) and attributes as JSON."""
    sides = (" ".join(map(_text, side)) for side in (task.inputs, task.outputs))
    return (task.op_type, *sides, json.dumps(dict(task.attributes)))


def _text(spec: Any) -> str:
    if spec is None:
        return "-"
    return f"{spec.dtype.name}[{','.join(map(str, spec.shape))}]:{spec.format.name}"


def write(found: dict[tuple[str, ...], set[str]]) -> None:
    """The table, the same bytes for the same tasks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((*key, " ".join(sorted(of))) for key, of in sorted(found.items()))
    TABLE.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    {"export": export, "collect": collect}[sys.argv[1]](Path(sys.argv[2]))
