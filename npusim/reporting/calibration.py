"""A calibration on the terminal, as JSON, and as the file of a chip."""

from __future__ import annotations

from json import dumps
from math import exp
from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Page, Section, Table, Verdict, bullets
from npusim.reporting.profiled import profiled_json
from npusim.reporting.spelling import count, percent, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.model.calibrating import Calibration, Constant
    from npusim.model.significance import Gain


def calibration_page(found: Calibration) -> Page:
    """What moved, on how many kernels, and what that does to the errors."""
    rows = [
        ("fitted", count(found.fitted), *map(_share, found.fitted_error)),
        ("kept aside", count(found.aside), *map(_share, found.aside_error)),
    ]
    errors = Table(("kernels", "number", "error before", "after"), rows, ("number", "after"))
    return Page(
        f"{found.step.name} on {found.profile.name}",
        verdicts=[Verdict(verdict(found), "good" if found.holds else "open")],
        sections=[
            Section("", [_constants(found.constants), errors]),
            *bullets("about the file", list(found.step.notes)),
        ],
    )


def verdict(found: Calibration) -> str:
    """Whether there is a chip to write, in one sentence."""
    if not found.moved:
        return f"nothing moves: the kernels are as {found.profile.name} is{_nearest(found)}"
    before, after = map(_share, found.aside_error)
    way = f"stays at {after}" if before == after else f"goes from {before} to {after}"
    said = f"the error of kernels that the fit hasn't seen {way}"
    return said if found.holds else f"no chip to write: {said}"


def _nearest(found: Calibration) -> str:
    """The constant that comes closest to being decided, and how far it is from it."""
    gains = [(each.gain, each.key) for each in found.constants if each.gain is not None]
    if not gains:
        return ", or too few of them depend on what can move"
    gain, key = max(gains, key=lambda pair: pair[0].gain)
    return (
        f"; {key} comes closest, and does to kernels that are left out {_points(gain.gain)} with a "
        f"standard error of {percent(gain.standard_error)}, of an error of {percent(gain.before)}"
    )


def _points(gain: float) -> str:
    return f"{percent(abs(gain))} {'good' if gain > 0 else 'harm'}"


def calibration_json(found: Calibration) -> dict[str, Any]:
    """The same as plain numbers; errors are mean absolute logarithms, each at most 0.5."""
    return {
        "name": found.step.name,
        "soc": found.profile.name,
        "profile": profiled_json(found.step, found.profile),
        "holds": found.holds,
        "verdict": verdict(found),
        "launches": found.launches,
        "fitted": _errors(found.fitted, found.fitted_error),
        "aside": _errors(found.aside, found.aside_error),
        "constants": [
            {
                "key": each.key,
                "meaning": each.meaning,
                "before": each.before,
                "after": each.after,
                "kernels": each.kernels,
                "moved": each.has_moved,
                "gain": None if each.gain is None else each.gain.gain,
                "gain_standard_error": None if each.gain is None else each.gain.standard_error,
            }
            for each in found.constants
        ],
    }


def chip_yaml(found: Calibration, name: str) -> str:
    """The file of a chip called `name`: what moved, with the kernels that it was fitted to."""
    before, after = map(_share, found.aside_error)
    lines = [
        f"# Made by npusim calibrate from {found.fitted} kernels. Error of {found.aside} others:",
        f"# {before} before, {after} after.",
        f"inherits: {found.profile.name}",
        f"name: {dumps(name)}",
        "sources:",
        f"  own_profile: {{repository: {dumps(found.file)}, kind: own}}",
    ]
    groups: dict[str, list[Constant]] = {}
    for each in found.constants:
        if each.has_moved:
            groups.setdefault(each.key.partition(".")[0], []).append(each)
    for group, members in groups.items():
        lines += [f"{group}:"]
        lines += [f"  {_leaf(each)}: {each.after:.5g}" for each in members]
        lines += ["  provenance:"]
        for each in members:
            notes = f"{each.before:.5g} before, {each.kernels} of {found.fitted} kernels feel it"
            origin = f"{{source: own_profile, confidence: fitted, notes: {dumps(notes)}}}"
            lines.append(f"    {_leaf(each)}: {origin}")
    return "\n".join(lines) + "\n"


def _leaf(constant: Constant) -> str:
    return constant.key.partition(".")[2]


def _constants(constants: Sequence[Constant]) -> Table:
    rows = [
        (
            each.key,
            significant(each.before),
            significant(each.after) if each.has_moved else "stays",
            count(each.kernels),
            "" if each.gain is None else _gained(each.gain),
            each.meaning,
        )
        for each in constants
    ]
    columns = ("constant", "before", "after", "kernels", "gain left out", "what it is")
    return Table(columns, rows, columns[1:5], wide=("what it is",))


def _gained(gain: Gain) -> str:
    """In points of the error of kernels that are left out, with its standard error."""
    return f"{100 * gain.gain:+.2f} +- {100 * gain.standard_error:.2f} %"


def _errors(kernels: int, error: tuple[float, float]) -> dict[str, Any]:
    return {"kernels": kernels, "error_before": error[0], "error_after": error[1]}


def _share(error: float) -> str:
    """A mean logarithm as a share of the time."""
    return percent(exp(error) - 1)
