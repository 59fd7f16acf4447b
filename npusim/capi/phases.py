"""The C side of the operators' functions: each passes its arguments on to one of two entries.

There are thousands of them, which differ in nothing but names and kinds of parameters, so they are
C that says both, and Python has an entry for the first phases and one for the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npusim.capi.declarations import CParameter, arguments_of, c_operators

# A number or an address as the entries take it.
WORD = "typedef union { int64_t whole; double real; } npusim_word;"
FIRST = "int npusim_first_phase(char *op, npusim_word *words, uint64_t *size, uintptr_t *executor);"
SECOND = (
    "int npusim_second_phase(char *op, uintptr_t workspace, uint64_t size, uintptr_t executor,"
    " uintptr_t stream);"
)

_REALS = frozenset(("float", "double"))


def is_real(kind: str) -> bool:
    """Whether a parameter of this C type arrives as a floating number."""
    return kind.strip() in _REALS


def source() -> str:
    """C functions for both phases of all operators."""
    return functions_of({op: arguments_of(op) for op in c_operators()})


def functions_of(interfaces: Mapping[str, Sequence[CParameter]]) -> str:
    """C functions for both phases of interfaces that come besides, in a library of their own."""
    return "\n".join(
        (
            "#include <stdbool.h>", "#include <stdint.h>", WORD, FIRST, SECOND,
            *_functions(interfaces),
        )
    )  # fmt: skip


def _functions(interfaces: Mapping[str, Sequence[CParameter]]) -> Iterator[str]:
    for op, own in interfaces.items():
        parameters, words = [], []
        for number, (kind, _) in enumerate(own):
            parameters.append(f"{_plain(kind)} p{number}")
            member = "real" if is_real(kind) else "whole"
            words.append(f"{{.{member} = p{number}}}")
        parameters += ["uint64_t *size", "uintptr_t *executor"]
        given = ", ".join(words or ["{.whole = 0}"])
        yield (
            f"int {op}GetWorkspaceSize({', '.join(parameters)}) "
            f"{{ npusim_word words[] = {{{given}}}; "
            f'return npusim_first_phase("{op}", words, size, executor); }}'
        )
        yield (
            f"int {op}(uintptr_t workspace, uint64_t size, uintptr_t executor, uintptr_t stream) "
            f'{{ return npusim_second_phase("{op}", workspace, size, executor, stream); }}'
        )


def _plain(kind: str) -> str:
    """What C passes: an address for a pointer, a whole number for an enumeration."""
    if "*" in kind:
        return "uintptr_t"
    return "int" if kind.startswith("acl") else kind.strip()
