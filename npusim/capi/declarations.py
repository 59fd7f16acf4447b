"""The C headers: fixed ones with their values filled in, and those of all aclnn interfaces.

An interface's functions follow from its contract, or from the prototype that the catalogue has of
it, so a new operator has its C functions without further work, and programs compile that use
interfaces without a kernel. The library's functions are read from the same headers
(:func:`prototypes`), so the two can't disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from npusim.capi.kernel_calls import JOB, OP_CALL
from npusim.operators.definition import Aclnn
from npusim.operators.registry import operator, operators, prototype, standard_names
from npusim.reading.files import read_text
from npusim.values.dtypes import BFLOAT16, DTYPES
from npusim.values.formats import Format
from npusim.values.status import AclError, StatusCode

if TYPE_CHECKING:
    from npusim.operators.definition import Prototype

FIXED = (
    "acl/acl_base.h",
    "acl/acl_rt.h",
    "acl/acl_rt_compile.h",
    "acl/acl.h",
    "aclnn/aclnn_base.h",
    "aclnn/acl_meta.h",
    "aclnn/storage_sizes.h",
)
# What a parameter is in C; an output tensor isn't const.
C_TYPES = {
    "tensor": "const aclTensor *",
    "int_array": "const aclIntArray *",
    "bool_array": "const aclBoolArray *",
    "int64": "int64_t ",
    "float": "float ",
    "double": "double ",
    "bool": "bool ",
    "text": "char *",
    "float_array": "const aclFloatArray *",
    "scalar": "const aclScalar *",
}

# What attributes of operator projects are in C; whole numbers are int64_t.
_OF_ATTRIBUTES = {
    "float": "double ", "bool": "bool ", "text": "char *", "ints": "const aclIntArray *",
    "floats": "const aclFloatArray *", "flags": "const aclBoolArray *",
}  # fmt: skip

# Headers of operators that declare functions of the host alone besides.
_WITH_SIZES = frozenset(
    (
        "aclnn_trans_matmul_weight.h", "aclnn_trans_convolution_weight.h",
        "aclnn_npu_format_cast.h", "aclnn_trans_quant_param.h",
    )
)  # fmt: skip

# What programs rely on a header to include (CANN's header of group normalisation includes it).
_STANDARD_HEADERS = {"aclnnGroupNormBackward": ("array",)}

_PROTOTYPE = re.compile(r"ACL_FUNC_VISIBILITY\s+([^;(]+?)(\w+)\(([^;]*)\);")
_PARAMETER = re.compile(r"(.*?)(\w+)$", re.DOTALL)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class CParameter(NamedTuple):
    """A parameter of a C function: its type, e.g. ``int64_t *``, and its name."""

    type: str
    name: str


class CFunction(NamedTuple):
    """A C function of the library."""

    returns: str
    name: str
    parameters: tuple[CParameter, ...]


@cache
def c_operators() -> tuple[str, ...]:
    """The aclnn interfaces that have C functions, sorted.

    All that have a contract or a definition, and all whose C parameters the catalogue knows, with a
    kernel or not.
    """
    from npusim.catalogue.facts import catalogue

    interfaces = filter(lambda name: name.startswith("aclnn"), standard_names())
    return tuple(sorted({*operators(), *interfaces, *catalogue().table("prototypes").keys}))


@cache
def headers() -> dict[str, str]:
    """Every header by the path under which programs include it."""
    texts = fixed_headers()
    by_file: dict[str, list[str]] = {file: [] for file in sorted(_WITH_SIZES)}
    for op in c_operators():
        by_file.setdefault(header_name(op), []).append(op)
    for file, ops in by_file.items():
        texts[f"aclnnop/{file}"] = _operator_header(file, ops)
        # Where older programs look for it.
        texts[f"aclnnop/level2/{file}"] = f'#include "aclnnop/{file}"\n'
    return texts


def fixed_headers() -> dict[str, str]:
    """The headers that no operator changes."""
    return _shipped(FIXED)


# What toolkits have in headers of their own, and these have in one.
# Source: what op_host folders of public operator libraries and projects include.
_CONTEXTS = (
    "shape", "storage_shape", "tensor", "kernel_context", "tiling_context", "tiling_parse_context",
    "infer_shape_context", "infer_datatype_context", "tiling_data", "continuous_vector",
    "runtime_attrs", "extended_kernel_context", "kernel_run_context", "storage_format",
)  # fmt: skip
_SAME = {
    "npusim/op_host.h": tuple(
        f"{folder}runtime/{each}.h" for folder in ("", "exe_graph/") for each in _CONTEXTS
    ),
    "tiling/tiling_api.h": ("graph/tensor.h",),
    "graph/types.h": ("graph/utils/type_utils.h", "graph/ge_error_codes.h"),
    "log/log.h": ("log/error_code.h", "op_common/log/log.h", "alog_pub.h", "base/err_msg.h",
        "error_manager/error_manager.h"),
    "platform/platform_infos_def.h": (
        "platform/platform_info.h", "platform/platform_info_def.h", "platform/soc_spec.h",
    ),
    "tiling/platform/platform_ascendc.h": (
        "platform/platform_ascendc.h", "aclnn/opdev/platform.h",
    ),
    "util/shape_util.h": ("op_common/op_host/util/shape_util.h", "op_host/util/shape_util.h"),
    "op_common/op_host/util/platform_util.h": ("util/platform_util.h",),
    "op_host/tiling_base_class.h": ("op_host/tiling_base_util.h",),
    "util/math_util.h": ("op_kernel/math_util.h",),
    "op_host/infershape_util.h": tuple(
        f"{folder}infershape_{kind}_util.h"
        for folder in ("", "op_host/", "op_common/op_host/")
        for kind in ("elewise", "broadcast")
    ),
    "lib/matmul_intf.h": ("lib/matrix/matmul/matmul.h",),
}  # fmt: skip
_MATHS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "axpy", "ceil", "clamp", "cos", "cosh",
    "cumsum", "digamma", "erf", "erfc", "exp", "floor", "fmod", "frac", "lgamma", "log", "power",
    "round", "sign", "sin", "sinh", "tan", "tanh", "trunc", "xor",
)  # fmt: skip
_PARTS = (
    "kernel_operator_intf.h", "kernel_tensor.h", "kernel_type.h", "kernel_tpipe.h",
    "kernel_event.h", "kernel_macros.h", "kernel_log.h", "kernel_common.h", "kernel_basic_intf.h",
    "kernel_vec_intf.h",
    "kernel_utils.h", "kernel_pop_stack_buffer.h", "kernel_operator_atomic_intf.h", "stub_def.h",
    "stub_fun.h", "pad/broadcast.h", "utils/debug/asc_dump.h", "utils/debug/asc_printf.h",
    "basic_api/kernel_basic_intf.h", "basic_api/kernel_operator_block_sync_intf.h",
    "kernel_operator_list_tensor_intf.h",
    "kernel_operator_mm_intf.h", "kernel_operator_fixpipe_intf.h", "kernel_struct_base.h",
    "kernel_operator_data_copy_intf.h", "kernel_operator_block_sync_intf.h",
    "basic_api/kernel_operator_list_tensor_intf.h", "lib/pad/kernel_operator_pad_intf.h",
    "lib/sigmoid/kernel_operator_sigmoid_intf.h", "adv_api/pad/broadcast.h",
    "lib/matrix/matmul/tiling.h", "impl/dav_c220/kernel_operator_reg_others_impl.h",
)  # fmt: skip


def kernel_headers() -> dict[str, str]:
    """The headers of kernels, C++ of 2017: all but the fixed ones."""
    folder = resources.files("npusim.capi").joinpath("headers")
    with resources.as_file(folder) as root:
        names = sorted(str(each.relative_to(root)) for each in root.rglob("*.h"))
    own = _shipped(tuple(name for name in names if name not in FIXED))
    known = _SAME | {"kernel_operator.h": parts_of_kernel_operator()}
    same = {name: f'#include "{text}"\n' for text, names in known.items() for name in names}
    return same | own


def parts_of_kernel_operator() -> tuple[str, ...]:
    """Headers of toolkits that have a part each of what kernel_operator.h has here.

    Source: what op_kernel folders of public operator libraries and projects include.
    """
    named = [f"lib/math/kernel_operator_{each}_intf.h" for each in _MATHS]
    plain = [f"{folder}/math/{each}.h" for folder in ("lib", "adv_api") for each in _MATHS]
    return (*_PARTS, *named, *plain)


def _shipped(names: tuple[str, ...]) -> dict[str, str]:
    folder = resources.files("npusim.capi").joinpath("headers")
    return {name: _fill(read_text(folder.joinpath(name))) for name in names}


def header_name(op: str) -> str:
    """The file that declares an operator, ``aclnn_roi_align_v2_backward.h``.

    The catalogue knows the names of CANN's headers, which follow no rule without exceptions; for
    an operator that isn't in it, the words of its name are joined by underscores.
    """
    from npusim.catalogue.facts import catalogue

    for row in catalogue().table("prototypes").records(op):
        if row["file"].endswith(".h"):
            return row["file"]
    return f"aclnn_{'_'.join(_WORDS.split(op.removeprefix('aclnn'))).lower()}.h"


def prototypes(texts: Mapping[str, str] | None = None) -> tuple[CFunction, ...]:
    """Every function that headers declare, by default all of them, in their order."""
    return tuple(
        CFunction(_plain(returns), name, _parameters(words))
        for text in (headers() if texts is None else texts).values()
        for returns, name, words in _PROTOTYPE.findall(text)
    )


def first_phase(op: str, parameters: Sequence[CParameter] | None = None) -> str:
    """The declaration of an operator's first phase, its parameters in the page's order."""
    own = arguments_of(op) if parameters is None else parameters
    words = [f"{kind}{name}" for kind, name in own]
    words += ["uint64_t *workspaceSize", "aclOpExecutor **executor"]
    return f"ACL_FUNC_VISIBILITY aclnnStatus {op}GetWorkspaceSize({', '.join(words)});"


def second_phase(op: str) -> str:
    """The declaration of an operator's second phase."""
    words = "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream"
    return f"ACL_FUNC_VISIBILITY aclnnStatus {op}({words});"


@cache
def arguments_of(op: str) -> tuple[CParameter, ...]:
    """The operator's own parameters of the first phase in C: as the contract has them.

    For one without a contract of its own, as the catalogue has them from CANN's header.
    """
    if op not in operators():
        known = prototype(op)
        if known and not _prototype(op):  # of somebody's package: no header of CANN has it
            return parameters_of(known[1])
        names = _as_defined(op, [name for name, _, _ in _prototype(op)])
        kinds = (_spaced(kind) for _, _, kind in _prototype(op))
        return tuple(map(CParameter, kinds, names))
    own = tuple(
        CParameter(kind.removeprefix("const ") if parameter.io == "out" else kind, parameter.name)
        for parameter in operator(op).parameters
        for kind in (C_TYPES[parameter.kind],)
    )
    return _as_in_cann(op, own)


def parameters_of(defined: Prototype) -> tuple[CParameter, ...]:
    """The parameters of a definition, as the interface that msopgen generates has them.

    Source: public documentation of Ascend C operator projects (the aclnn interface).
    """
    named = {each.name: "const aclTensor *" for each in defined.inputs}
    named |= {each.name: _OF_ATTRIBUTES.get(each.kind, "int64_t ") for each in defined.attributes}
    made = {each.name: "aclTensor *" for each in defined.outputs if each.name not in named}
    lists = {each.name for each in (*defined.inputs, *defined.outputs) if each.many}
    return tuple(
        CParameter(kind.replace("aclTensor", "aclTensorList") if name in lists else kind, name)
        for name, kind in (named | made).items()
    )


@cache
def taking_memory_of(op: str) -> Mapping[str, str]:
    """The outputs that C has no parameter for, and the inputs whose memory they take."""
    known = None if op in operators() else prototype(op)
    return known[1].into if known and isinstance(known[1], Aclnn) else {}


def _prototype(op: str) -> tuple[tuple[str, str, str], ...]:
    """Name, io and C type of the operator's own parameters in CANN's header.

    The last two of every first phase are workspaceSize and executor.
    """
    from npusim.catalogue.facts import catalogue

    return catalogue().prototype_of(op)[:-2]


def _as_defined(op: str, names: list[str]) -> list[str]:
    """The names of a header's parameters, or the page's where the definition follows it."""
    known = prototype(op)
    if known is None:
        return names
    _, defined = known
    ours = _in_order(defined)
    other = [name for name in names if name not in ours]
    own = [each for each in dict.fromkeys(ours) if each not in names]
    if len(other) != len(own):
        return names
    renamed = dict(zip(other, own, strict=True))
    return [renamed.get(name, name) for name in names]


def _in_order(defined: Prototype) -> list[str]:
    """Inputs, attributes, outputs: as headers have them."""
    names = [each.name for each in defined.inputs]
    names += [each.name for each in defined.attributes]
    names += [each.name for each in defined.outputs]
    return [name for name in names if name != "-"]


def _spaced(kind: str) -> str:
    """A type of the catalogue as declarations have it: ``const aclTensor *``, ``int64_t ``."""
    *before, base = kind.replace("*", " ").split()
    if "*" not in kind:
        return f"{base} "
    return f"{'const ' if before else ''}{base} *"


def _as_in_cann(op: str, parameters: tuple[CParameter, ...]) -> tuple[CParameter, ...]:
    """The parameters in the types of CANN's header, if the catalogue has it.

    A contract knows numbers of one width only, and calls a scalar a number; cubeMathType of
    aclnnMatmul is an int8_t, beta of aclnnAddmm an aclScalar.
    """
    known = [kind for _, _, kind in _prototype(op)]
    if len(known) != len(parameters):
        return parameters
    return tuple(
        CParameter(_spaced(kind), each.name) for each, kind in zip(parameters, known, strict=True)
    )


def _operator_header(file: str, ops: list[str]) -> str:
    guard = f"NPUSIM_ACLNNOP_{file.removesuffix('.h').upper()}_H"
    wanted = [name for op in ops for name in _STANDARD_HEADERS.get(op, ())]
    standard = "".join(f"#ifdef __cplusplus\n#include <{name}>\n#endif\n" for name in wanted)
    sizes = '#include "aclnn/storage_sizes.h"\n' if file in _WITH_SIZES else ""
    declared = "\n".join(f"{first_phase(op)}\n{second_phase(op)}\n" for op in ops)
    return _guarded(guard, standard, sizes, declared)


def project_header(op: str, parameters: Sequence[CParameter]) -> str:
    """The header of an interface that an operator project adds."""
    guard = f"NPUSIM_PROJECT_{op.upper()}_H"
    return _guarded(guard, "", "", f"{first_phase(op, parameters)}\n{second_phase(op)}\n")


def _guarded(guard: str, standard: str, sizes: str, declared: str) -> str:
    return (
        f"#ifndef {guard}\n#define {guard}\n\n{standard}"
        f'#include "aclnn/acl_meta.h"\n{sizes}\n'
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{declared}\n"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )


def _fill(text: str) -> str:
    """A fixed header with the values that Python knows too in the place of their marks."""
    kinds = {f"ACL_{'BF16' if each is BFLOAT16 else each.name}": each.acl for each in DTYPES}
    filled = {
        "npusim_job": JOB,
        "npusim_op": OP_CALL,
        "aclError": _constants("int", AclError),
        "aclnnStatus": _constants("aclnnStatus", StatusCode),
        "aclDataType": _enum("aclDataType", {"ACL_DT_UNDEFINED": -1, **kinds}),
        "aclFormat": _enum("aclFormat", {f"ACL_FORMAT_{each.name}": each for each in Format}),
    }
    for mark, replacement in filled.items():
        text = text.replace(f"/* @{mark}@ */", replacement)
    return text


def _constants(kind: str, values: type[IntEnum]) -> str:
    # Constants and not macros, as in CANN, so that `switch` and templates may name them; unused
    # ones draw no warning in C++.
    lines = (f"static const {kind} {each.name} = {each.value};" for each in values)
    return "\n".join(lines)


def _enum(name: str, values: dict[str, int]) -> str:
    lines = ",\n".join(f"    {each} = {int(number)}" for each, number in values.items())
    return f"typedef enum {name} {{\n{lines}\n}} {name};"


def _parameters(words: str) -> tuple[CParameter, ...]:
    if words.strip() in ("", "void"):
        return ()
    found = (_PARAMETER.fullmatch(word.strip()) for word in words.split(","))
    return tuple(CParameter(_plain(each[1]), each[2]) for each in found if each)


def _plain(kind: str) -> str:
    """A type without ``const``, with one space before its stars."""
    base = " ".join(kind.replace("const", " ").replace("*", " ").split())
    stars = "*" * kind.count("*")
    return f"{base} {stars}" if stars else base
