"""The pages of reference that are made from the code: commands, YAML files, chips.

`docs/hooks.py` adds them when the site is built, so that they can't fall behind.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent
SHORTHAND: dict[str, Any] = {"type": ["string", "array", "object"]}
_COMMANDS = """# Commands

Made from the program itself: `npusim VERB --help` prints the same.
Exit codes: 0 yes, 1 no (refused or failed), 2 wrong usage, 3 unknown.
"""
_YAML = """# YAML files

Made from the models that read the files. Unknown keys are refused, with a suggestion.

`npusim init` writes commented files to begin with. Editors complete and check the keys if a file
begins with the address of its schema:

```yaml
# yaml-language-server: $schema=schemas/plan.json
```

Where a list is expected, one word stands for a list of one. The list of calls that `npusim model`
reads has [a page of its own](model_files.md).
"""
_CHIPS = """# Chips

Made from `hw_profiles/`. `npusim profiles show CHIP` prints every number of a chip with its source
and confidence; [a chip of your own](../howto/chip.md) needs only what differs.
"""
CHIP_KEYS = ("inherits", "sources", "provenance")


# --- commands ------------------------------------------------------------------------------------


def cli_page() -> str:
    """Every verb with its usage, arguments and options, from the application itself."""
    from typer.main import get_command

    from npusim.cli.app import application

    root = get_command(application([]))
    parts = [_COMMANDS]
    parts.extend(_command(command, f"npusim {name}") for name, command in _verbs(root))
    return "\n".join(parts)


def _verbs(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if hasattr(command, "commands"):
            yield from _verbs(command, f"{above}{name} ")


def _command(command: Any, path: str) -> str:
    context = command.context_class(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {path}\n", f"```text\n{path} {usage}\n```\n", _prose(command.help or ""), ""]
    rows = [_parameter(each, context) for each in command.params if not getattr(each, "hidden", 0)]
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    if command.epilog:
        lines.append(f"```text\n{command.epilog.replace(chr(8), '').strip()}\n```\n")
    return "\n".join(lines)


def _parameter(parameter: Any, context: Any) -> str:
    record = parameter.get_help_record(context) or (parameter.human_readable_name, "")
    name, text = (" ".join(part.split()) for part in record)
    return f"| `{_piped(name)}` | {_cell(text)} |"


def _piped(text: str) -> str:
    return text.replace("|", "\\|")


def _cell(text: str) -> str:
    """Text in a table: signs of Markdown and HTML mean themselves, outside of code too."""
    parts = re.split(r"(``.+?``|`[^`]+`)", re.sub(r":(?:meth|class|func):", "", text))
    return "".join(
        _piped(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*"))
        for part in parts
    )


def _prose(text: str) -> str:
    return text.replace("\b", "").replace("<", "&lt;").strip()


# --- the kernel language -------------------------------------------------------------------------

_LANGUAGE = """# Kernel language

Made from `npusim.ascendc`. [Kernels of your own](../kernels/README.md) shows how they go together.
`dst` and `src` are tiles (`LocalTensor`); an intrinsic gives its target back. Shapes are those of
NumPy; what repeats along an axis of one is said there. What the chip or npusim refuses raises from
`npusim.KernelError`: [the checks](../kernels/checks.md).
"""

# What the language itself calls; kernels never do.
MACHINERY = frozenset(
    [
        "alike",
        "apply_deferred_adds",
        "arrange",
        "attach",
        "awaits",
        "computed",
        "computes_together",
        "defer_atomic_adds",
        "emit_scalar",
        "emit_vector",
        "filled",
        "fold_by_instruction",
        "folds_within_repeat",
        "in_share",
        "is_last",
        "is_unread",
        "issue",
        "let_go",
        "load_places",
        "noted",
        "numbered",
        "occupation",
        "pass_by",
        "reads_last",
        "record_vector",
        "repeats_since",
        "require",
        "same_dtypes",
        "schedules",
        "separate_steps",
        "separately",
        "set_register",
        "set_values",
        "settle",
        "stack_size",
        "storage",
        "take_messages",
        "touched",
        "wrote",
    ]
)


def language_page() -> str:
    """What can be imported from the kernel language, with signatures, and the methods of a core."""
    import enum
    import inspect

    from npusim import ascendc
    from npusim.ascendc.intrinsics.elementwise import Intrinsic

    parts = [_LANGUAGE, "## Names\n", "| name | what it is |", "|---|---|"]
    classes = []
    for name in ascendc.__all__:
        value = getattr(ascendc, name)
        own = name.isupper() or not hasattr(value, "__name__")
        shown = f"a {type(value).__name__}" if own else _first(value.__doc__ or "")
        parts.append(f"| `{name}` | {_cell(shown)} |")
        if inspect.isclass(value) and value is not ascendc.Core:
            classes.append(value)
    for cls in classes:
        parts.append(f"\n### {cls.__name__}\n")
        if issubclass(cls, enum.Enum):
            parts.append(", ".join(f"`{each}`" for each in cls.__members__) + "\n")
            continue
        parts += ["| | |", "|---|---|"]
        if made := _signature(cls):
            parts.append(f"| `{_piped(cls.__name__ + made)}` | how it is made |")
        parts += _rows(_members(cls))
    core = _members(ascendc.Core)
    rows = {kind: [] for kind in (True, False)}
    for name, value in core.items():
        rows[isinstance(value, Intrinsic)].append((name, value))
    parts += ["\n## Elementwise intrinsics\n", "| core. | computes (instruction) |", "|---|---|"]
    parts += _rows(dict(rows[True]))
    parts += ["\n## Other methods of a core\n", "| core. | what it does |", "|---|---|"]
    return "\n".join([*parts, *_rows(dict(rows[False]))]) + "\n"


def _members(cls: type) -> dict[str, Any]:
    """What a class of the language has for kernels, by name."""
    bases = [each for each in reversed(cls.__mro__) if each.__module__.startswith("npusim")]
    found = {name: value for base in bases for name, value in vars(base).items()}
    return {
        name: value
        for name, value in sorted(found.items())
        if not name.startswith("_") and name not in MACHINERY and getattr(value, "__doc__", "")
        if callable(value) or isinstance(value, property) or hasattr(value, "hardware_name")
    }


def _rows(members: Mapping[str, Any]) -> list[str]:
    return [
        f"| `{_piped(name + _signature(value))}` | {_cell(_first(value.__doc__))} |"
        for name, value in members.items()
    ]


def _signature(value: Any) -> str:
    """The parameters and what comes back, without the core itself."""
    import inspect

    if hasattr(value, "hardware_name"):
        sources = ["src"] if value.tiles == 1 else [f"src{each}" for each in range(value.tiles)]
        return f"({', '.join(['dst', *sources, *['number'] * value.number])})"
    if not callable(value):
        return ""
    told = inspect.signature(value)
    kept = [each for name, each in told.parameters.items() if name != "self"]
    shown = str(told.replace(parameters=[each.replace(default=_short(each)) for each in kept]))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def _short(parameter: Any) -> Any:
    """A default as a reader writes it."""
    default = parameter.default
    if hasattr(type(default), "__members__"):
        return _Named(f"{type(default).__name__}.{default.name}")
    if default is parameter.empty or isinstance(default, int | float | str | type(None)):
        return default
    return _Named(getattr(default, "name", None) or getattr(default, "__name__", "..."))


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


# --- YAML files ----------------------------------------------------------------------------------


class _Lenient(GenerateJsonSchema):
    """A field that takes a shorthand (one word for a list of one) accepts it in the schema too."""

    def function_before_schema(self, schema: Any) -> dict[str, Any]:
        inner = super().function_before_schema(schema)
        if schema["schema"]["type"] in {"model", "model-fields"} and "$ref" not in inner:
            return inner
        return {"anyOf": [inner, SHORTHAND]}


@cache
def yaml_models() -> dict[str, tuple[str, Any]]:
    """Name of a schema -> what such a file is, and the model that reads it."""
    from npusim.capacity.plan import Plan, PricedProducts
    from npusim.hardware.profile import Profile
    from npusim.llm.architecture import Architecture
    from npusim.serving.plan import LlmPlan
    from npusim.sweeping.spec import SweepSpec

    return {
        "plan": ("A workload and an objective, for `npusim plan`.", Plan),
        "llm_plan": ("The same of a language model.", LlmPlan),
        "prices": ("What cards cost and take, for `--prices`.", PricedProducts),
        "sweep": ("Calls over shapes, dtypes and products, for `npusim sweep`.", SweepSpec),
        "chip": ("A chip: `-s FILE.yaml` wherever a chip is named.", Profile),
        "architecture": ("A decoder, for `npusim llm --architecture`.", Architecture),
    }


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of one kind of YAML file, for editors."""
    about, model = yaml_models()[name]
    made = model.model_json_schema(schema_generator=_Lenient)
    if name == "chip":
        _partial(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": f"npusim {name.replace('_', ' ')}",
        "description": about,
    }


def _partial(made: dict[str, Any]) -> None:
    """A file says what differs from what it inherits, and where each group's numbers are from."""
    for part in [made, *made.get("$defs", {}).values()]:
        part.pop("required", None)
        for key in CHIP_KEYS:
            part.get("properties", {}).setdefault(key, {})


def yaml_page() -> str:
    """Every key of the YAML files: what it means, what is allowed, its default."""
    parts = [_YAML]
    for name, (about, _) in yaml_models().items():
        parts.append(f"## {name}\n\n{about} Schema: [{name}.json](schemas/{name}.json).\n")
        made = schema(name)
        parts.append(_keys(made))
        for each, part in sorted(made.get("$defs", {}).items()):
            if "properties" in part:
                title = f"### {name}: {each}\n\n{_first(part.get('description', ''))}\n"
                parts += [title, _keys(part)]
    return "\n".join(parts)


def _keys(part: Mapping[str, Any]) -> str:
    rows = ["| key | what it is | value | default |", "|---|---|---|---|"]
    needed = part.get("required", ())
    for key, value in part.get("properties", {}).items():
        default = "required" if key in needed else json.dumps(value.get("default"), default=str)
        shown = "" if default == "null" else default if default == "required" else f"`{default}`"
        cells = (value.get("description", ""), _type(value), shown)
        rows.append(f"| `{key}` | {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows) + "\n"


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        return f"{value['$ref'].rpartition('/')[2]}"
    if "anyOf" in value or "oneOf" in value:
        options = value.get("anyOf", value.get("oneOf"))
        seen = dict.fromkeys(_type(each) for each in options if each != SHORTHAND)
        return " or ".join(name for name in seen if name != "null") or "anything"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    kind = str(value.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(value.get('items', {}))}"
    limits = {
        "exclusiveMinimum": "above",
        "minimum": "from",
        "exclusiveMaximum": "below",
        "maximum": "up to",
    }
    told = [f"{word} {value[key]:,}" for key, word in limits.items() if key in value]
    return " ".join([kind, *told])


def _first(text: str) -> str:
    return text.partition("\n\n")[0].replace("\n", " ")


# --- chips ---------------------------------------------------------------------------------------

_COLUMNS = {
    "cube cores": lambda p: p.cores.cube_cores,
    "vector cores": lambda p: p.cores.vector_cores,
    "cube MHz": lambda p: p.clocks.cube_mhz,
    "UB KiB": lambda p: p.buffers.ub_bytes // 1024,
    "L1 KiB": lambda p: p.buffers.l1_bytes // 1024,
    "L2 MiB": lambda p: p.memory.l2_bytes >> 20,
    "memory GiB": lambda p: p.memory.capacity_bytes >> 30,
    "memory GB/s": lambda p: p.memory.hbm_nominal_gbps,
}
_TELLING = (
    "cores.cube_cores",
    "cores.vector_cores",
    "clocks.cube_mhz",
    "buffers.ub_bytes",
    "memory.l2_bytes",
    "memory.l2_gbps",
    "memory.hbm_nominal_gbps",
    "memory.hbm_sustained_fraction",
)


def chips_page() -> str:
    """The chips side by side, and the source of the numbers that matter most."""
    import npusim
    from npusim.hardware.loading import profile_names
    from npusim.hardware.reading import built_in_sources

    profiles = [npusim.load_profile(name) for name in profile_names()]
    parts = [
        _CHIPS,
        "| chip | " + " | ".join(_COLUMNS) + " |",
        "|---|" + "---:|" * len(_COLUMNS),
    ]
    for profile in profiles:
        cells = " | ".join(f"{read(profile):g}" for read in _COLUMNS.values())
        parts.append(f"| {profile.name} | {cells} |")
    parts += ["\n## Where the numbers are from\n", "| chip | number | sources | confidence |"]
    parts.append("|---|---|---|---|")
    for profile in profiles:
        for key in _TELLING:
            told = profile.provenance[key]
            source = ", ".join(each.key for each in told.sources)
            parts.append(f"| {profile.name} | `{key}` | {source} | {told.confidence} |")
    parts += ["\n## Sources\n", "| key | repository | file or page | kind |", "|---|---|---|---|"]
    for key, source in built_in_sources().items():
        at = f"{source.repository} {source.snapshot}".strip()
        parts.append(f"| {key} | {_cell(at)} | {_cell(source.path)} | {source.kind} |")
    return "\n".join(parts) + "\n"


STUB = """# {title}

This page is made from the code when [the site](../../CONTRIBUTING.md#set-up) is built; in a clone
`python docs/reference_pages.py FOLDER` writes it, with the other pages of its kind. {instead}
"""
STUBS = {
    "cli": ("Commands", "`npusim VERB --help` prints the same."),
    "ascendc": ("Kernel language", "`help(npusim.ascendc.Core)` prints the same."),
    "chips": ("Chips", "`npusim profiles show CHIP` prints the numbers of one with their sources."),
    "yaml": ("YAML files", "`npusim init` writes commented files with the usual keys."),
}


def stub(name: str) -> str:
    """What stands in the repository for a page that is made with the site."""
    title, instead = STUBS[name]
    text = STUB.format(title=title, instead=instead)
    if name == "yaml":
        text += "".join(f"\n## {kind}\n\n{about}\n" for kind, (about, _) in yaml_models().items())
    return text


def pages() -> dict[str, str]:
    """Path in the site -> text, of everything that is made when the site is built."""
    made = {
        "reference/cli.md": cli_page(),
        "reference/ascendc.md": language_page(),
        "reference/yaml.md": yaml_page(),
        "reference/chips.md": chips_page(),
    }
    for name in yaml_models():
        made[f"reference/schemas/{name}.json"] = json.dumps(schema(name), indent=1) + "\n"
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for path, text in pages().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
