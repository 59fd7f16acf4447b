"""ONNX files that are wrong, huge for their size, or odd: an answer or a sentence, soon."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from npusim.graph import onnx_native
from support.commands import npusim

pytest.importorskip("onnx")

from support.nasty_graphs import model, nasty, relu

NASTY = nasty()


@pytest.mark.parametrize(("content", "said"), [pytest.param(*row[1:], id=row[0]) for row in NASTY])
def test_a_nasty_graph_is_answered_or_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str | None
) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    start = time.process_time()
    found = npusim(capsys, f"model {tmp_path / 'm.onnx'} -s Ascend910B3")
    assert time.process_time() - start < 10
    assert "internal" not in found.err
    assert "Traceback" not in found.err
    if said is None:
        assert found.code in (0, 3), found.err
    elif said or found.code == 2:
        assert found.code == 2
        assert said in found.err
        assert "contradicts itself" not in found.err  # it is known in which way


@pytest.mark.skipif(os.name != "posix", reason="signals say how a process ended")
def test_what_ends_the_process_that_infers_is_one_sentence_and_the_next_file_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(content for name, content, _ in NASTY if name == "attributes: eye")
    for content, code in ((first, 2), (model([relu()]), 0), (first, 2), (model([relu()]), 0)):
        (tmp_path / "m.onnx").write_bytes(content)
        found = npusim(capsys, f"model {tmp_path / 'm.onnx'} -s Ascend910B3")
        assert found.code == code
        assert ("ONNX's own code for it ends" in found.err) == (code == 2)


@pytest.mark.skipif(os.name != "posix", reason="the time of a process is limited")
def test_what_takes_the_process_that_infers_too_long_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from onnx import ModelProto

    monkeypatch.setattr(onnx_native, "_SECONDS", -1)  # over before it begins
    wide = ModelProto.FromString(model([relu("x", f"y{place}") for place in range(20_000)]))
    with pytest.raises(ValueError, match="takes more than"):
        onnx_native.infer_shapes(wide)
