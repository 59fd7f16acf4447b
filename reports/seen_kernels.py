"""Makes npusim/catalogue/seen_kernels.csv: kernels that are known to have run on a product family.

`python reports/seen_kernels.py` writes it anew, from what was published: kernel times of builtin
operators (data/measured_ops.csv.gz), the operators of networks with a rate on a product
(data/model_rates.csv, data/networks.tar.xz), and calls of frameworks on a product.
"""

from __future__ import annotations

import csv
import gzip
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from npusim.catalogue import facts
from npusim.graph import onnx_reader
from npusim.graph.mapping import map_operators

DATA = Path(__file__).parent / "data"
_MEASURED = "kernel times in reports/data/measured_ops.csv.gz"
_NETWORKS = "networks with a rate in reports/data/model_rates.csv"
_FRAMEWORK = "calls in vllm-project/vllm-ascend"
_CALLED = (  # what its code for Atlas inference products calls: -x, x < y, repeat_interleave, triu
    ("Neg", "310P", f"{_FRAMEWORK} vllm_ascend/_310p/ops/fla/chunk_gated_delta_rule.py"),
    ("Less", "310P", f"{_FRAMEWORK} vllm_ascend/_310p/ops/fla/gdn_310.py"),
    (
        "LayerNorm",
        "310P",
        f"{_FRAMEWORK} tests/e2e/pull_request/one_card/_310p/test_vl_model_310p.py",
    ),
    ("RepeatInterleave", "310P", f"{_FRAMEWORK} vllm_ascend/_310p/ops/mm_encoder_attention.py"),
    ("Triu", "310P", f"{_FRAMEWORK} vllm_ascend/_310p/attention/attention_mask.py"),
)
_FIRST_GENERATION = "910 gen1"


def measured() -> Iterator[tuple[str, str, str]]:
    """Operator types of published kernel times, with the family of the chip."""
    with gzip.open(DATA / "measured_ops.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["impl"] == "builtin":
                family = "910" if row["chip"].startswith(_FIRST_GENERATION) else "A2"
                yield row["op"], family, _MEASURED


def networks() -> Iterator[tuple[str, str, str]]:
    """Operator types of the networks that were timed on a product."""
    with (DATA / "model_rates.csv").open(encoding="utf-8") as table:
        timed = {(row["onnx"], row["chip"][:4]) for row in csv.DictReader(table)}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(DATA / "networks.tar.xz") as packed:
        packed.extractall(folder, filter="data")
        for file, family in sorted(timed):
            network, _ = onnx_reader.read(Path(folder) / file)
            map_operators(network)
            for node in network.nodes:
                yield node.op, family, _NETWORKS


def rows() -> list[tuple[str, str, str]]:
    """The file's rows: every type that the catalogue knows, and where it was seen."""
    known = set(facts.catalogue().op_types)
    found = {*measured(), *networks(), *_CALLED}
    return sorted(row for row in found if row[0] in known)


if __name__ == "__main__":
    path = facts.DATA_FILE.resolve().with_name("seen_kernels.csv")
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("op_type", "family", "source"))
        writer.writerows(rows())
