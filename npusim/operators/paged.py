"""What the page of an interface says of tensors beside their dtypes: axes and storage formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.catalogue import judging, names, wording
from npusim.operators.checks import Objection, in_format
from npusim.operators.listed import described
from npusim.values.formats import Format
from npusim.values.status import Status, StatusCode

if TYPE_CHECKING:
    from npusim.catalogue.verdicts import ParameterVerdict, Verdict
    from npusim.operators.contract import Call
    from npusim.values.tensors import TensorSpec


def objection(call: Call, verdict: Verdict) -> Objection | None:
    """Refuses a number of axes or a private storage format that the page doesn't list.

    A single element may have any number of axes, and blocks have those of their storage.
    """
    if verdict.kind != names.API:
        return None
    tensors = (each.name for each in call.contract.parameters if each.kind == "tensor")
    code = judging.code_of_shapes(call.contract.name)
    for name, spec in call.given(*tensors):
        said = described(verdict, name)
        found = said and (_by_format(name, spec, said) or _by_rank(name, spec, said, code))
        if found:
            return found
    return None


def _by_format(name: str, spec: TensorSpec, said: ParameterVerdict) -> Objection | None:
    if not said.formats or not spec.format.is_private or spec.format.name in said.formats:
        return None
    plain = Format.__members__.get(said.formats[0], Format.ND)
    listed = ", ".join(said.formats)
    sentence = f"The format of {name} should be in [{listed}], but got {spec.format}."
    remedy, changes = in_format(name, spec, plain)
    return Objection(Status(StatusCode.ACLNN_ERR_PARAM_INVALID, sentence, remedy), changes)


def _by_rank(
    name: str, spec: TensorSpec, said: ParameterVerdict, code: StatusCode
) -> Objection | None:
    if spec.numel <= 1 or spec.format.is_private or wording.rank_allows(said.rank, spec.rank):
        return None
    sentence = f"{wording.wrong_rank(said, spec.shape, name)}."
    return Objection(Status(code, sentence))
