"""Operators and chips of other packages: found by their entry points, or registered and removed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import npusim
from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.hardware import (
    Profile,
    load_profile,
    profile_names,
    register_profile,
    unregister_profile,
)
from npusim.operators import Aclnn, Operator, Page, register, unregister
from npusim.operators.registry import band_class, op_types, refresh
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.sweeping.points import expand
from npusim.sweeping.spec import read_spec
from npusim.sweeping.working import Chunk, work
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import (
    AclnnError,
    FileError,
    KernelCodeError,
    KernelError,
    UnknownNameError,
    UsageError,
)
from support import sweeps
from support.commands import npusim as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEFINITIONS = """
from npusim.operators import Aclnn, Operator, family, real

OPERATORS = family(
    "elementwise",
    formulas=(
        Operator("SoftCap", "x -> y", (real("cap?"),),
            Aclnn("aclnnSoftCap", attributes=(real("capValue?", "cap"),))),
    ),
)
"""
FORMULAS = """
from npusim.schedules.formula_classes import kernels_of_table
from npusim.schedules.formula_row import Compute

KERNELS = kernels_of_table(
    (Compute("SoftCap", lambda f, x, cap: f.min(f.max(x, -cap), cap), attributes={"cap": 1.0}),)
)
"""
CHIP = """
inherits: Ascend910B4
name: Atlantis1
"""
SWEEP = """
products: [Atlantis1]
axes: {n: [64]}
calls:
  - {op: aclnnSoftCap, arguments: {self: "fp32[{n}]", capValue: 0.5}}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with an operator and a chip, on the path and not installed."""
    folder = tmp_path / "atlantis"
    (folder / "ops").mkdir(parents=True)
    (folder / "chips").mkdir()
    for place in (folder, folder / "ops", folder / "chips"):
        (place / "__init__.py").touch()
    (folder / "ops" / "definitions.py").write_text(DEFINITIONS, encoding="utf-8")
    (folder / "ops" / "formulas.py").write_text(FORMULAS, encoding="utf-8")
    (folder / "chips" / "Atlantis1.yaml").write_text(CHIP, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [each for each in sys.modules if each.split(".")[0] == "atlantis"]:
        del sys.modules[name]


def install(package: Path) -> None:
    """What an installer writes about the package's entry points."""
    about = package.parent / "atlantis-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: atlantis\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        "[npusim.operators]\nsoftcap = atlantis.ops\n[npusim.profiles]\nchips = atlantis.chips\n",
        encoding="utf-8",
    )
    importlib.invalidate_caches()
    refresh()


def test_what_is_registered_answers_every_question_until_it_is_removed(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register("atlantis.ops")
    register_profile(package / "chips" / "Atlantis1.yaml")
    try:
        assert "SoftCap" in op_types()
        assert band_class("SoftCap") == "elementwise"
        device, x = npusim.Device("atlantis1"), np.linspace(-2, 2, 40, dtype=np.float32)
        assert device.check("aclnnSoftCap", self=x).ok
        done = device.run("aclnnSoftCap", self=x, capValue=0.5)
        assert done.outputs is not None
        np.testing.assert_array_equal(done.outputs["out"], np.clip(x, -0.5, 0.5))
        assert device.estimate("SoftCap", x=x).duration_us == pytest.approx(done.duration_us)
        line = "check aclnnSoftCap -s Atlantis1 self=fp32[64] --json"
        assert command(capsys, line).code == 0
        sweep = expand(read_spec(sweeps.write(tmp_path, SWEEP)), "spec.yaml")
        (point,) = sweep.points
        (answered,) = work(Chunk(npusim.__version__, {point.chip: point.soc}, sweep.points)).answers
        assert json.loads(answered.line)["duration_us"] > 0
    finally:
        unregister("atlantis.ops")
        unregister_profile(package / "chips" / "Atlantis1.yaml")
    with pytest.raises(UnknownNameError, match="SoftCap"):
        npusim.Device("Ascend910B4").estimate("SoftCap", x=x)
    with pytest.raises(UnknownNameError, match="atlantis1"):
        npusim.Device("atlantis1")
    with pytest.raises(UsageError, match="isn't registered"):
        unregister("atlantis.ops")
    with pytest.raises(UsageError, match="isn't registered"):
        unregister_profile(package / "chips")


def test_an_installed_package_is_found_by_its_entry_points(package: Path, tmp_path: Path) -> None:
    """Also by the workers of a sweep, which are processes of their own."""
    install(package)
    spec, out = sweeps.write(tmp_path, SWEEP), tmp_path / "rows.csv"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    def said(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "npusim", *words],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    answer = json.loads(said("estimate", "SoftCap", "-s", "Atlantis1", "x=fp16[640]", "--json"))
    assert answer["answers"][0]["duration_us"] > 0
    said("sweep", str(spec), "-o", str(out))
    assert "aclnnSoftCap" in out.read_text(encoding="utf-8")


def test_a_definition_may_hold_its_kernel() -> None:
    row = Compute("Halved", lambda f, x: f.mul(x, 0.5))
    halved = Operator("Halved", "x -> y", (), Aclnn("aclnnHalved"), kernel=kernel_of(row))
    register(halved)
    try:
        x = np.arange(24, dtype=np.float16)
        done = npusim.Device("Ascend310P3").run("aclnnHalved", self=x)
        assert done.outputs is not None
        np.testing.assert_array_equal(done.outputs["out"], x / 2)
        assert done.tasks[0].name == "Halved"
    finally:
        unregister(halved)
    assert "Halved" not in op_types()


def test_a_definition_may_say_what_it_takes() -> None:
    kernel = kernel_of(Compute("Halved", lambda f, x: f.mul(x, 0.5)))
    taken = {"910": (FLOAT16,), "A2": (FLOAT16, FLOAT)}
    halved = Operator("Halved", "x -> y", kernel=kernel, dtypes=taken, most_axes=2)
    register(halved)
    try:
        old, new = npusim.Device("Ascend910A"), npusim.Device("Ascend910B3")
        x = npusim.TensorSpec((4, 8), "float32")
        assert new.check("Halved", x=x).ok
        assert new.estimate("Halved", x=x).duration_us > 0
        status = old.check("Halved", x=x)
        assert status.code == 161002
        assert "FLOAT16" in status.remedy
        assert old.check("Halved", x=npusim.TensorSpec((4, 8), "float16")).ok
        assert new.check("Halved", x=npusim.TensorSpec((4, 8, 2), "float32")).code == 161002
        assert npusim.Device("Ascend310P3").check("Halved", x=x).code == 561003
    finally:
        unregister(halved)


class Muddled(Kernel):
    """Stops before its numbers: with Python's ValueError, or because the language refuses."""

    def __init__(self, _profile: Profile, x: GlobalTensor, y: GlobalTensor) -> None:
        self.reads, self.writes, self.block_dim = (x,), (y,), 1

    def process(self, core: Core) -> None:
        core.scalar_alu("work")
        if core.numerics and self.reads[0].shape == (2,):
            raise KernelError("Muddled", "two of them never end")
        if core.numerics:
            np.add(np.zeros(2), np.zeros(3))


def test_a_kernel_that_stops_at_its_numbers_is_no_question_of_the_product() -> None:
    muddled = Operator("Muddled", "x -> y", kernel=Muddled, infer=lambda specs, _: specs)
    register(muddled)
    try:
        device = npusim.Device("Ascend910B3")
        for size, wanted, says in (
            (3, KernelCodeError, r"test_registration\.py:\d+: ValueError"),
            (2, AclnnError, r"can't compute these numbers.*never end\nAn estimate gives the time"),
        ):
            x = np.ones(size, np.float32)
            assert device.check("Muddled", x=x).ok
            assert device.estimate("Muddled", x=x).duration_us > 0
            with pytest.raises(wanted, match=says):
                device.run("Muddled", x=x)
    finally:
        unregister(muddled)


@pytest.mark.parametrize(
    ("added", "says"),
    [
        (Operator("Add", "x -> y", kernel="nowhere"), "Add is already provided by ops/elementwise"),
        (Page("aclnnMatmul", "contract:X"), "already provided by ops/matmul"),
        (Page("aclnnAdd", "contract:X"), "already provided by ops/elementwise"),
        ("no_such_package", "No module named 'no_such_package'"),
    ],
)
def test_what_cant_be_registered_is_refused_and_leaves_nothing(
    added: Operator | Page | str, says: str
) -> None:
    before = op_types()
    with pytest.raises(FileError, match=says):
        register(added)
    assert op_types() == before
    with pytest.raises(UsageError):
        unregister(added)


def test_a_folder_of_chips_is_registered_whole_and_names_are_not_taken_twice(
    package: Path,
) -> None:
    chips = package / "chips"
    register_profile(chips)
    try:
        assert "Atlantis1" in profile_names()
        assert load_profile("Atlantis1").cores == load_profile("Ascend910B4").cores
        (package / "deeper.yaml").write_text("inherits: Atlantis1\nname: deeper\n", "utf-8")
        assert load_profile(package / "deeper.yaml").cores == load_profile("Atlantis1").cores
        with pytest.raises(FileError, match="Atlantis1 is there already"):
            register_profile(chips)
    finally:
        unregister_profile(chips)
    assert "Atlantis1" not in profile_names()
    other = package / "other.yaml"
    other.write_text(CHIP, encoding="utf-8")
    with pytest.raises(FileError, match="isn't what the file is called"):
        register_profile(other)
