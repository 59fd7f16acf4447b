"""What examples/ has does what it says; files of users agree with the schemas for editors."""

from __future__ import annotations

import configparser
import json
import re
import runpy

import pytest
import yaml
from reference_pages import cli_page, pages, schema

import npusim
from support.pages import assert_prints
from support.paths import ROOT

EXAMPLES = ROOT / "examples"


def test_the_notebook_prints_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 - that is the test
            shown = "".join("".join(output.get("text", "")) for output in cell["outputs"])
            assert_prints(capsys.readouterr().out, shown)
            assert cell["execution_count"]


def test_a_kernel_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "add_gelu.py"), run_name="__main__")
    first, *chips = capsys.readouterr().out.splitlines()
    assert float(first.split()[-1]) < 1e-5
    assert [line.split()[0] for line in chips] == ["Ascend910A", "Ascend910B3", "Ascend310P3"]


def test_the_action_holds_a_kernel_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    folder = EXAMPLES / "ci"
    steps = yaml.safe_load((folder / "kernel_budget.yml").read_text(encoding="utf-8"))
    assert steps["jobs"]["budget"]["steps"][-1]["run"] == "pytest examples/ci"
    chip = configparser.ConfigParser()
    chip.read(folder / "pytest.ini", encoding="utf-8")
    found = runpy.run_path(str(folder / "test_budget.py"))
    tests = [test for name, test in found.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test(npusim.Device(chip["pytest"]["npusim_soc"]))
    with pytest.raises(pytest.fail.Exception, match="isn't faster than 120 us"):
        found["test_add_gelu_keeps_its_budget"](npusim.Device("Ascend310P3"))


def test_the_reference_has_every_verb() -> None:
    from npusim.cli.app import _VERBS

    page = cli_page()
    assert all(f"## npusim {verb}\n" in page for verb in _VERBS)


def test_reference_pages_are_made() -> None:
    made = pages()
    assert "Ascend310P3" in made["reference/chips.md"]
    assert "`mean_requests_per_s`" in made["reference/yaml.md"]
    language = made["reference/ascendc.md"]
    assert "| `add(dst, src0, src1)` | dst = src0 + src1 (vadd). |" in language
    assert (
        "| `cast(dst: LocalTensor, src: LocalTensor, mode: RoundMode = RoundMode.CAST_" in language
    )
    assert "| `TQue(position: TPosition, depth: int, name: str = ''" in language
    assert not re.search(r"`(_|let_go|is_unread|apply_deferred_adds)\w*\(", language)
    assert "| `limit_ms` | limit of their latency, ms | number above 0" in made["reference/yaml.md"]
    for path, text in made.items():
        assert path.endswith(".md") or json.loads(text)["properties"]


FILES = {
    "plan": ["examples/plan.yaml", "reports/plans/detection_head.yaml"],
    "llm_plan": ["reports/plans/chat.yaml"],
    "sweep": ["examples/sweep.yaml", "reports/sweep_example.yaml", "reports/small_sweep.yaml"],
    "chip": ["examples/half_bandwidth.yaml", "hw_profiles/Ascend910B3.yaml"],
}


@pytest.mark.parametrize(("kind", "file"), [(kind, each) for kind in FILES for each in FILES[kind]])
def test_files_agree_with_their_schema(kind: str, file: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    raw = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    jsonschema.validate(raw, schema(kind))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(raw | {"tilte": 1}, schema(kind))
