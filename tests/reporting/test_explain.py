"""What is said to help was played: on pages, in terminals, of operators and kernels alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import npusim
from npusim.reporting.explain import suggested
from support import commands

if TYPE_CHECKING:
    import pytest

GELU = "aclnnGelu -s 910b3 self=fp16[1024,4096] --explain"


def test_an_estimate_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    said = commands.npusim(capsys, "estimate", *GELU.split())
    assert said.code == 0, said.err
    assert "critical path" in said.out
    assert re.search(r"  - .*: [0-9.]+ us -> [0-9.]+ us", said.out)


def test_what_is_told_gains() -> None:
    device = npusim.Device("910b3")
    result = device.estimate("aclnnGelu", self=npusim.TensorSpec((1024, 4096), "float16"))
    told = suggested(result)
    assert told
    for text in told:
        found = re.search(r"([0-9.]+) us -> ([0-9.]+) us", text)
        assert found is not None
        assert float(found[2]) < float(found[1])
