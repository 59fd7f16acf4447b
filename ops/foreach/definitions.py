"""Operators on lists of tensors: the same formula on the n-th tensors of every list."""

from npusim.operators.definition import Aclnn, Operator, family, real, reals, scalar
from npusim.operators.shape_checks import lists_alike

_NUMBER = real("scalar?")


def _lists(count: int) -> str:
    return "x*" if count == 1 else " ".join(f"x{place + 1}*" for place in range(count))


def _foreach(name: str, count: int, *aclnn: Aclnn) -> Operator:
    """An operator on so many lists, perhaps with a number, which is an attribute or a tensor."""
    lists = _lists(count)
    own = aclnn or (Aclnn(f"aclnnForeach{name}", f"{lists} -> out*"),)
    alike = (lists_alike, *((each.rstrip("*"),) for each in lists.split()), (">",))
    tensors = f"{lists} scalars? -> y*"
    return Operator(f"Foreach{name}", tensors, (_NUMBER,), own, checks=(alike,))


def _in_place(name: str, count: int, number: str = "") -> Aclnn:
    lists = _lists(count)
    return Aclnn(f"aclnnForeach{name}Inplace", f"{lists} {number} -> {lists.split()[0]}")


def _numbered(name: str, count: int, number: str, *, v2: bool = True) -> tuple[Aclnn, ...]:
    """With a number in a tensor, and in a scalar."""
    lists = _lists(count)
    first = Aclnn(f"aclnnForeach{name}", f"{lists} {number} -> out*")
    second = Aclnn(f"aclnnForeach{name}V2", f"{lists} -> out*", (scalar(number, "scalar"),))
    return (first, second) if v2 else (first,)


def _scaled(name: str, count: int = 1) -> tuple[Operator, Operator]:
    """With one number for all tensors, and with one for each."""
    many = f"aclnnForeach{name}ScalarList"
    listed = (
        Aclnn(many, f"{_lists(count)} -> out*", (reals("scalars", "scalar"),))
        if count == 1
        else Aclnn(many, f"{_lists(count)} scalars -> out*")
    )
    in_place = (_in_place(f"{name}Scalar", count, "scalar"),) if name in ("Mul", "Sub") else ()
    return (
        _foreach(f"{name}Scalar", count, *_numbered(f"{name}Scalar", count, "scalar"), *in_place),
        _foreach(f"{name}ScalarList", count, listed),
    )


def _listed(name: str, *, in_place: bool = False) -> Operator:
    """On two lists."""
    changed = (_in_place(f"{name}List", 2),) if in_place else ()
    return _foreach(f"{name}List", 2, Aclnn(f"aclnnForeach{name}List", "x1* x2* -> out*"), *changed)


def _with_alpha(name: str) -> Operator:
    aclnn = _numbered(f"{name}List", 2, "alpha")
    return _foreach(f"{name}List", 2, *aclnn, _in_place(f"{name}List", 2, "alpha"))


def _by_list(name: str) -> Operator:
    return _foreach(f"{name}List", 3, *_numbered(f"{name}List", 3, "scalars", v2=False))


# fmt: off
OPERATORS = family(
    "optimizer",
    kernel=(
        _with_alpha("Add"), _with_alpha("Sub"),
        _listed("Mul", in_place=True), _listed("Div", in_place=True),
        _listed("Maximum"), _listed("Minimum"), _listed("Pow"),
        *(each for name in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "Pow")
          for each in _scaled(name)),
        *_scaled("Addcdiv", 3), *_scaled("Addcmul", 3), _by_list("Addcdiv"), _by_list("Addcmul"),
        _foreach("LerpScalar", 2,
            Aclnn("aclnnForeachLerpScalar", "x1* x2* -> out*", (scalar("weight", "scalar"),))),
        _foreach("LerpList", 3, Aclnn("aclnnForeachLerpList", "x1* x2* weight* -> out*")),
        _foreach("PowScalarAndTensor", 1,
            Aclnn("aclnnForeachPowScalarAndTensor", "x* -> out*", (scalar("scalar"),))),
        _foreach("RoundOffNumber", 1,
            Aclnn("aclnnForeachRoundOffNumberV2", "x* -> out*", (scalar("roundMode", "scalar"),))),
        _foreach("ZeroInplace", 1, Aclnn("aclnnForeachZeroInplace", "x* -> x*")),
        _foreach("Log", 1, Aclnn("aclnnForeachLog", "x* -> out*"), _in_place("Log", 1)),
        *(_foreach(name, 1)
          for name in ("Abs", "Acos", "Asin", "Atan", "Copy", "Cos", "Cosh", "Erf", "Erfc", "Exp",
                       "Expm1", "Log10", "Log1p", "Log2", "Neg", "Reciprocal", "Sigmoid", "Sign",
                       "Sin", "Sinh", "Sqrt", "Tan", "Tanh")),
    ),
)
