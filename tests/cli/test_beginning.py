"""Files to begin with, completion, and what a mistyped word is answered with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from npusim.cli.init import KINDS
from support.commands import npusim
from support.paths import ROOT

MODEL = ROOT / "examples" / "model.yaml"
USES = {
    "plan": "plan plan.yaml",
    "sweep": "sweep sweep.yaml --workers 1",
    "chip": "estimate aclnnRelu -s chip.yaml self=fp16[4096,4096]",
    "model": "model model.yaml -s 910b3",
    "prices": f"recommend {MODEL} --rate 20 --slo 50 -s 310p3 --prices prices.yaml --json",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_accepted(capsys, monkeypatch, tmp_path, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert npusim(capsys, f"init {kind}").code == 0
    used = npusim(capsys, USES[kind])
    assert used.code == 0, used.err
    again = npusim(capsys, f"init {kind}")
    assert again.code == 2
    assert "--force" in again.err


def test_an_unknown_kind_says_which_there_are(capsys) -> None:
    said = npusim(capsys, "init plam")
    assert said.code == 2
    assert "plan" in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_npusim(capsys, shell: str) -> None:
    assert f"complete_{shell}" in npusim(capsys, f"completion {shell}").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("npusim esti", "estimate"),
        ("npusim estimate --l", "--l2"),
        ("npusim estimate GroupNormB", "GroupNormBackward"),
        ("npusim estimate aclnnGroupNormB", "aclnnGroupNormBackward"),
        ("npusim estimate Gelu -s 910b", "910b3"),
        ("npusim estimate Gelu -s 910B3,ascend310p", "910B3,ascend310p3"),
        ("npusim collective allr", "allreduce"),
    ],
)
def test_a_shell_gets_what_could_come_next(words: str, expected: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    asked["_NPUSIM_COMPLETE"] = "complete_bash"
    said = subprocess.run(
        [sys.executable, "-m", "npusim"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in said.stdout.split()


@pytest.mark.parametrize("words", [{}, {"COMP_WORDS": "npusim esti", "COMP_CWORD": "x"}])
def test_without_what_was_typed_no_shell_asks(capsys, monkeypatch, words: dict[str, str]) -> None:
    for name, text in {"_NPUSIM_COMPLETE": "complete_bash", **words}.items():
        monkeypatch.setenv(name, text)
    assert npusim(capsys, "estimate aclnnRelu -s 910b3 self=fp16[64]").code == 0


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("estimat Relu", "estimate"),
        ("check Relu --modle x", "--model"),
        ("model examples/resnet50.onx -s 910b3", "Did you mean resnet50.onnx?"),
        ("recommend examples/model.yml --rate 1 --slo 9 -s 910b3", "Did you mean model.yaml?"),
        ("llm step reports/data/llm_configs/Qwen3-8.json -s 910b3", "Did you mean Qwen3-8B.json?"),
        ("collective allreduc -s 910b3", "allreduce"),
        ("estimate Gelu -s 910b9 x=fp16[8]", "910B3"),
    ],
)
def test_mistyped_words_are_answered_with_the_right_ones(capsys, line: str, meant: str) -> None:
    said = npusim(capsys, line)
    assert said.code == 2
    assert meant in said.err


def test_a_search_for_nothing_says_what_comes_near(capsys) -> None:
    assert "Did you mean Gelu" in npusim(capsys, "ops --search gellu").err
