"""What every answer is made of: statuses, errors, tensors."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Number = float | Literal["nan", "inf", "-inf"]
Band = tuple[Number, Number]
Json = dict[str, Any]


class Object(BaseModel):
    """An object that has these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


Verdict = Literal["yes", "no", "unknown"]


class Status(Object):
    """An aclnn status: 0 is a yes, another code a no, null an unknown, which npusim can't tell."""

    code: int | None
    name: str
    ok: bool
    verdict: Verdict
    message: str
    """Why not, or what isn't known and why."""
    remedy: str
    rules_checked: bool | None = None
    """Under a yes: whether every rule of the operator's page was asked."""
    rules_source: str | None = None
    """The page or host code that these rules are from."""


class Problem(Object):
    """Why there is no answer at all."""

    kind: str
    exit_code: int
    code: int | None
    verdict: Verdict | None = None
    """Of a call: no or unknown."""
    message: str
    remedy: str


class Failed(Object):
    """What any verb prints when it fails; the exit code of the command is in it."""

    error: Problem


class Tensor(Object):
    """A tensor, with data where it is small."""

    dtype: str
    shape: list[int]
    format: str | None = None
    data: list[Any] | None = None
    note: str = ""
