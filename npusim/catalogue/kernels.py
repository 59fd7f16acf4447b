"""The verdict on an operator type (what profiles and graphs name): is there a kernel that takes it?

A profile row is a kernel that ran elsewhere. On another product the framework may pick another
kernel for the same computation, so the APIs that compute the same are asked as well: a yes of
either is a yes. A page's no for the product as a whole is about calling the API; the graph engine
can still use a kernel that is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.catalogue import apis, operators, wording
from npusim.catalogue.verdicts import Answer, Evidence, ParameterVerdict, Verdict, best
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.catalogue.facts import Catalogue, OperatorTensor
    from npusim.catalogue.names import Subject
    from npusim.catalogue.question import Question


def judge(catalogue: Catalogue, subject: Subject, question: Question) -> Verdict:
    """The verdict on the first alternative that runs, or on the one that comes nearest."""
    if refused := _misnamed(catalogue, subject, question):
        return refused
    kernels = [_judge_kernel(catalogue, op_type, question) for op_type in subject.op_types]
    asked = [apis.judge(catalogue, api, _by_position(question)) for api in subject.apis]
    by_kernel = best(verdict.answer for verdict in kernels)
    by_api = best(verdict.answer for verdict in asked)
    kernel = next((each for each in kernels if each.answer is by_kernel), None)
    api = next((each for each in asked if each.answer is by_api), None)
    if kernel is None:
        return _renamed(api, subject, question) if api else _nothing_known(subject, question)
    if api is None:
        return _renamed(kernel, subject, question)
    if _page_decides(kernel, api, question):
        decided = api
    elif Answer.SUPPORTED in (by_kernel, by_api):
        decided = kernel if by_kernel is Answer.SUPPORTED else api
    else:
        decided = kernel if by_kernel is Answer.REJECTED or _is_there(kernel, api) else api
    other = api if decided is kernel else kernel
    if decided is api and api.code is StatusCode.ACLNN_ERR_PARAM_INVALID:  # names its tensors
        decided = replace(api, why=f"{api.subject}: {api.why}")
    if decided is api and api.answer is Answer.SUPPORTED and by_kernel is Answer.REJECTED:
        decided = replace(api, notes=(*api.notes, f"{api.subject} runs another kernel here"))
    return _renamed(decided, subject, question, also=other.evidence)


def _misnamed(catalogue: Catalogue, subject: Subject, question: Question) -> Verdict | None:
    """The refusal of a dtype by the kernel's list for one tensor, where others may take it."""
    for op_type in subject.op_types if question.inputs else ():
        known = operators.accepted_dtypes(catalogue, (op_type,), question.family)
        if known.vague or not known.listed:
            return None
        on_cpu = operators.on_ai_cpu(catalogue, op_type, question.family)
        entries = (*operators.on_ai_core(catalogue, op_type, question.family), *on_cpu)
        for name, kind in question.named.items():
            mine = [each for entry in entries for each in entry.tensors if each.name == name]
            takes = tuple(dict.fromkeys(each for tensor in mine for each in tensor.dtypes))
            if takes and kind not in takes:
                where, tensor = wording.place(question), f"tensor {name} of {op_type}"
                why = wording.kernel_refused(tensor, (kind,), takes, where)
                evidence = operators.presence(catalogue, (op_type,), question.family)
                code = StatusCode.ACLNN_ERR_PARAM_INVALID
                return _verdict(op_type, question, Answer.REJECTED, why, code, evidence)
    return None


def _page_decides(kernel: Verdict, api: Verdict, question: Question) -> bool:
    """A kernel without a static list says less about dtypes than a page that lists the product.

    The page's yes is about as many inputs as it has.
    """
    vague = any(note == _NO_LIST for note in kernel.notes)
    inputs = [each for each in api.parameters if each.given and each.io.startswith("in")]
    covers = len(inputs) == sum(map(bool, _by_position(question).inputs))
    says = api.answer is Answer.REJECTED or (api.answer is Answer.SUPPORTED and covers)
    return vague and api.by_page is Answer.SUPPORTED and says


def _is_there(kernel: Verdict, api: Verdict) -> bool:
    """A kernel that is there stays unknown for its dtypes, whatever the API's page doesn't list."""
    not_offered = api.code is StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
    return not_offered and kernel.by_operator is Answer.SUPPORTED


_NO_LIST = "its kernel chooses dtypes when it is compiled, so there is no list to check against"


def _judge_kernel(catalogue: Catalogue, op_type: str, question: Question) -> Verdict:
    entries = operators.on_ai_core(catalogue, op_type, question.family)
    evidence = operators.presence(catalogue, (op_type,), question.family)
    # The tensors of the entry that says most.
    tensors = max(
        (entry.tensors for entry in entries),
        key=lambda tensors: sum(len(tensor.dtypes) for tensor in tensors),
        default=(),
    )
    if not entries:
        return _without_ai_core(catalogue, op_type, question, evidence)
    vague = any(entry.basis in ("dynamic_select", "listed") for entry in entries)
    known = operators.accepted_dtypes(catalogue, (op_type,), question.family)
    wrong, doubtful = _misfits(known, operators.census(catalogue, question.family), question)
    parameters = tuple(_parameter(tensor) for tensor in tensors)
    notes = (_NO_LIST,) if vague else ()
    moved = [kind for kind in question.dtypes if _moves_to_cpu(kind, known)]
    if moved and not wrong:
        notes = (*notes, f"with {', '.join(moved)} it runs on the AI CPU, which is slow")
    if wrong:
        why = wording.kernel_refused(op_type, wrong, known.possible, wording.place(question))
        code = StatusCode.ACLNN_ERR_PARAM_INVALID
        return _verdict(op_type, question, Answer.REJECTED, why, code, evidence, parameters, notes)
    if doubtful:
        why = f"no list says whether {op_type} takes {', '.join(doubtful)}"
        return _verdict(op_type, question, Answer.UNKNOWN, why, None, evidence, parameters, notes)
    code = StatusCode.ACLNN_SUCCESS
    why = evidence.text
    return _verdict(op_type, question, Answer.SUPPORTED, why, code, evidence, parameters, notes)


def _misfits(
    known: operators.Dtypes, census: operators.Census, question: Question
) -> tuple[list[str], list[str]]:
    """Dtypes that no tensor takes, and those that no list decides."""
    wrong, doubtful = [], []
    for kind in question.dtypes:
        if kind in known.possible:
            continue
        if census.is_rare(kind):
            wrong.append(kind)
        elif _moves_to_cpu(kind, known):
            continue
        elif known.vague:
            doubtful.append(kind)
        else:
            wrong.append(kind)
    return wrong, doubtful


def _moves_to_cpu(kind: str, known: operators.Dtypes) -> bool:
    """A dtype for which the graph engine takes the AI CPU, because the AI Core kernel hasn't it."""
    return kind in known.on_cpu and kind not in known.possible


def _without_ai_core(
    catalogue: Catalogue, op_type: str, question: Question, evidence: Evidence
) -> Verdict:
    on_cpu = operators.on_ai_cpu(catalogue, op_type, question.family)
    takes = frozenset(name for entry in on_cpu for name in entry.dtypes)
    refused = [kind for kind in question.dtypes if kind not in takes]
    if on_cpu and not refused:
        why, code = f"{evidence.text}", StatusCode.ACLNN_SUCCESS
        return _verdict(op_type, question, Answer.SUPPORTED, why, code, evidence)
    if evidence.answer is Answer.UNKNOWN:
        return _verdict(op_type, question, Answer.UNKNOWN, evidence.text, None, evidence)
    code = StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
    reason = f"the AI CPU doesn't take {', '.join(refused)}" if on_cpu else evidence.text
    why = wording.not_offered(op_type, question, reason)
    return _verdict(op_type, question, Answer.REJECTED, why, code, evidence)


def _parameter(tensor: OperatorTensor) -> ParameterVerdict:
    kind = "aclTensorList*" if tensor.param_type == "dynamic" else "aclTensor*"
    io = "in" if tensor.io == "input" else "out"
    optional = tensor.param_type == "optional"
    return ParameterVerdict(tensor.name, io, kind, None, None, tensor.dtypes, optional=optional)


def _by_position(question: Question) -> Question:
    """The tensors of an operator are named otherwise than the parameters of an API."""
    inputs = question.inputs or tuple(question.named.values())
    return replace(question, named={}, inputs=inputs, shapes={}, absent=())


def _verdict(
    op_type: str,
    question: Question,
    answer: Answer,
    why: str,
    code: StatusCode | None,
    evidence: Evidence,
    parameters: tuple[ParameterVerdict, ...] = (),
    notes: tuple[str, ...] = (),
) -> Verdict:
    return Verdict(
        op_type, "operator", question.family, question.soc, answer, why, code, (evidence,),
        parameters, notes,
    )  # fmt: skip


def _renamed(
    verdict: Verdict, subject: Subject, question: Question, also: tuple[Evidence, ...] = ()
) -> Verdict:
    seen = [each for each in also if each not in verdict.evidence]
    notes = tuple(dict.fromkeys((*verdict.notes, *([subject.note] if subject.note else []))))
    return replace(
        verdict, subject=subject.name, kind="operator", soc=question.soc, notes=notes,
        evidence=(*verdict.evidence, *seen),
    )  # fmt: skip


def _nothing_known(subject: Subject, question: Question) -> Verdict:
    why = "the catalogue doesn't know this operator"
    return Verdict(
        subject.name, "operator", question.family, question.soc, Answer.UNKNOWN, why, None
    )
