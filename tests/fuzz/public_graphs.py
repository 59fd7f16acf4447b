"""Public ONNX graphs that aren't ours: each gets an answer or one sentence that names the node.

python tests/fuzz/public_graphs.py [--nodes] reads all models in the onnx package, and with --nodes
the tests of every ONNX operator too (minutes); the suite reads a part.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from npusim.engine import Memo
from npusim.hardware import Profile, load_profile
from npusim.model import read_model, retime
from npusim.values.errors import NpusimError

SOC = "Ascend310P3"


def shipped() -> list[Path]:
    """The models in the onnx package: exports of PyTorch, operators, classifiers."""
    return sorted((Path(onnx.__file__).parent / "backend/test/data").rglob("*.onnx"))


def node_tests(folder: Path) -> Iterator[Path]:
    """The tests of ONNX's operators, written to a folder one after the other."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is not None:
            file = folder / f"{case.name}.onnx"
            file.write_bytes(case.model.SerializeToString())
            yield file


def verdict(file: Path, chip: Profile, memo: Memo) -> tuple[str, str]:
    """``answer``, ``sentence`` or ``fault``, and the words."""
    try:
        result = retime(read_model(file).at(None, chip), chip, memo=memo)
    except NpusimError as error:
        one = str(error).strip()
        return ("sentence" if one else "fault"), one
    except Exception as error:
        return "fault", f"{type(error).__name__}: {error}"
    return "answer", repr(result)


def faults(files: Iterable[Path]) -> tuple[Counter[str], list[str]]:
    """How many of which verdict, and those that are neither an answer nor a sentence."""
    chip, memo = load_profile(SOC), Memo()
    counts: Counter[str] = Counter()
    found = []
    for file in files:
        kind, words = verdict(file, chip, memo)
        counts[kind] += 1
        if kind == "fault":
            found.append(f"{file.parent.name}/{file.name}: {words}")
    return counts, found


def main() -> int:
    """Read all of them; 1 where one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", action="store_true", help="the tests of every operator too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = [*shipped(), *(node_tests(Path(folder)) if asked.nodes else ())]
        counts, found = faults(files)
    sys.stdout.write("\n".join([str(dict(counts)), *found]) + "\n")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
