"""Whatever npusim says can be said in Chinese; English neither pays for it nor changes by it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import translations

from npusim.cli import main
from npusim.values import language
from support.paths import ROOT


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(words)
    printed = capsys.readouterr()
    assert (language.spoken(), os.environ["LANGUAGE"]) == ("en", "en")
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def test_every_message_is_translated_and_the_catalogue_is_compiled() -> None:
    pytest.importorskip("babel")
    catalogue = translations.current()
    assert translations.lacking(catalogue) == [], "run `python docs/translations.py`"
    po, mo = translations.texts(catalogue)
    assert translations.PO.read_bytes() == po, "run `python docs/translations.py`"
    assert translations.MO.read_bytes() == mo, "run `python docs/translations.py`"


@pytest.mark.parametrize("words", [["--lang", "zh"], ["--lang=zh_CN.UTF-8"]])
def test_help_is_chinese_within_80_columns(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "model", "--help", *words)
    assert code == 0
    assert "模型跑一步要多久" in out
    assert "Options" not in out
    assert "Show this message" not in out
    from npusim.cli.wrapping import width

    assert max(map(width, out.splitlines())) <= 80
    verbs = said(capsys, *words, "--help")[1]
    assert "Language models" not in verbs
    assert "退出码" in verbs


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh:en"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": ""}, "zh"),
    ],
)
def test_the_environment_chooses_as_it_does_for_gettext(
    environment: dict[str, str], expected: str
) -> None:
    assert language.wanted(environment) == expected


def test_a_language_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "check", "Gelu", "--lang", "tlh")
    assert code == 2
    assert "en" in err
    assert "zh" in err


def test_what_programs_read_stays_english(capsys: pytest.CaptureFixture[str]) -> None:
    call = ("estimate", "Gelu", "-s", "910b3", "x=fp16[64,64]", "--json")
    code, out, _ = said(capsys, *call, "--lang", "zh")
    assert code == 0
    assert json.loads(out) == json.loads(said(capsys, *call)[1])


def test_words_behind_two_hyphens_are_the_programs() -> None:
    from npusim.cli import _spoken_to

    words = ["exec", "./a", "--", "--lang", "xx"]
    assert _spoken_to(words) == words


def test_english_reads_no_catalogue() -> None:
    code = (
        "import sys; from npusim.cli.app import application; application(['check']); "
        "print('gettext' in sys.modules and 'npusim' in str(sys.modules['gettext']._translations))"
    )
    environment = {**os.environ, "LANG": "C.UTF-8", "LANGUAGE": "en"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "False"


class _Listening:
    """The catalogue, and what it was asked for in vain."""

    def __init__(self, catalogue: Any) -> None:
        self._catalogue = catalogue
        self.missed: list[str] = []

    def gettext(self, message: str) -> str:
        found: str = self._catalogue.gettext(message)
        if found == message and is_prose(message):
            self.missed.append(message)
        return found

    def ngettext(self, one: str, many: str, number: int) -> str:
        return str(self._catalogue.ngettext(one, many, number))

    def info(self) -> dict[str, str]:
        return {"language": "zh"}


def is_prose(text: str) -> bool:
    """Whether a text is a sentence in English: no code, path, command, or word of the vendor's."""
    if re.search(r"[\u3400-\u9fff|\n]|^(return|def) |self\.|^npusim |ACLNN_ERR|@[0-9a-f]{6}", text):
        return False
    return len(re.findall(r"(?<![\w/.=-])[a-z]{2,}(?![\w/=(])", text)) >= 3


LLM = "reports/data/llm_configs/Qwen3-0.6B.json"
CALLS = [
    "check Gelu -s 910A,910B3 x=bf16[64,64]",
    "estimate Gelu -s 910b3 x=bf16[64,64] --explain",
    "estimate Gelu -s 910b3,310p3 x=fp16[64,64]",
    "report Gelu -s 910b3,310p3 x=fp16[64,64] -o {folder}/page.html",
    "model {root}/examples/model.yaml -s 910b3",
    "report {root}/examples/model.yaml -s 910b3 -o {folder}/model.html",
    "plan {root}/examples/plan.yaml --html {folder}/plan.html",
    "llm step {root}/" + LLM + " -s 910b3 --batch 2",
    "collective allreduce -s 910b3 --cards 8 --bytes 1MiB",
]
# What stands in files of data, and in the vendor's words, is English.
DATA = re.compile(
    r"A documented fleet|public product survey|^Standard operator|Hot Chips|^Perceptron|msinsight"
    r"|least sure value|of the tensor"
)


def listened(monkeypatch: pytest.MonkeyPatch) -> list[_Listening]:
    """Catalogues that will be asked, and what they are asked for in vain."""
    heard: list[_Listening] = []
    speak = language.speak

    def listening(name: str) -> None:
        speak(name)
        if name == "zh":
            heard.append(_Listening(language._spoken))
            language._spoken = heard[-1]  # type: ignore[assignment]

    monkeypatch.setattr(language, "speak", listening)
    return heard


def missed(heard: list[_Listening]) -> list[str]:
    """Sentences that the catalogues lack."""
    return [text for each in heard for text in each.missed if not DATA.search(text)]


@pytest.mark.parametrize("call", CALLS)
def test_no_sentence_stays_english(
    call: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = listened(monkeypatch)
    words = call.format(folder=tmp_path, root=ROOT).split()
    code, out, err = said(capsys, *words, "--lang", "zh")
    assert code == 0, err
    assert missed(heard) == []
    printed = out + "".join(file.read_text() for file in tmp_path.glob("*.html"))
    assert len(re.findall("[\u3400-\u9fff]", printed)) > 20


SPOKEN_ROOMS = ("values", "hardware", "reading", "graph", "capacity", "llm", "serving")
OURS = {"RuntimeError", "ImportError", "NotImplementedError", "SystemError", "UnknownNameError"}


def unsaid(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Prose in what is raised, or kept for it in a local name, that isn't said: line and text."""
    kept = {"problem", "remedy", "hint", "why", "reason"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if getattr(node.exc.func, "id", "") not in OURS:
                yield from _prose_in(node.exc)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in kept:
            yield from _prose_in(node.value)


def _prose_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("say", "ngettext"):
        return
    if isinstance(node, ast.JoinedStr):
        words = "".join(getattr(each, "value", "") for each in node.values if hasattr(each, "kind"))
        if is_prose(words):
            yield node.lineno, words
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_prose(node.value):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from _prose_in(child)


def test_what_a_room_refuses_is_said() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file, tree in translations.sources()
        if file.relative_to(ROOT / "npusim").parts[0] in SPOKEN_ROOMS
        for line, text in unsaid(tree)
    ]
    assert found == []


WRONG = [
    "estimate Gelu -s 910B9 x=fp16[8]",
    "estimate Gellu -s 910b3 x=fp16[8]",
    "estimate Gelu -s 910b3 x=fp17[8]",
    "estimate Gelu -s 910b3 x=fp16[8",
    "estimate GroupNormBackward -s 910b3 N=two",
    "run Gelu -s 910b3 x={folder}/none.npy",
    "model {folder}/none.onnx -s 910b3",
    "model {folder}/text.onnx -s 910b3",
    "plan {folder}/list.yaml",
    "plan {folder}/wrong.yaml",
    "plan {folder}/keys.yaml",
    "llm step {folder} -s 910b3",
    "llm step {folder}/config.json -s 910b3",
    "llm step {root}/" + LLM + " -s 910b3 --tp 3",
    "llm step {root}/" + LLM + " -s 910b3 --batch 0",
    "llm serve {root}/" + LLM + " -s 910b3 --requests {folder}/list.yaml",
    "llm serve {root}/" + LLM + " -s 910b3 --rate -1",
    "estimate Gelu -s {folder}/chip.yaml x=fp16[8]",
    "sweep {folder}/wrong.yaml",
]


@pytest.mark.parametrize("call", WRONG)
def test_errors_are_chinese(
    call: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = {"workload": {"models": [{"name": "a"}], "mean_requests_per_s": -1}, "fleets": {}}
    files = {
        "text.onnx": "no model",
        "list.yaml": "- 1",
        "wrong.yaml": json.dumps(plan),
        "keys.yaml": "a: [1",
        "config.json": '{"architectures": ["LlamaForCausalLM"]}',
        "chip.yaml": "inherits: Ascend910B9",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    heard = listened(monkeypatch)
    words = call.format(folder=tmp_path, root=ROOT).split()
    code, out, err = said(capsys, *words, "--lang", "zh")
    assert code in {1, 2, 3}
    assert re.search(r"[\u3400-\u9fff]", out + err)
    assert missed(heard) == []
    assert not [line for line in err.splitlines() if is_prose(line)]
