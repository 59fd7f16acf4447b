"""Numbers, types and structures of pyasc programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from npusim.values import dtypes
from npusim.values.errors import DTypeError

_SPELLINGS = {"half": "float16", "float": "float32", "double": "float64", "bool": "bool"}


class Int(int):
    """A whole number of a kernel."""

    def ceildiv(self, other: int) -> Int:
        """The quotient, rounded up."""
        return Int(-(-int(self) // int(other)))


def _wrapped(name: str) -> Callable[[Int, object], object]:
    plain = getattr(int, name)

    def method(self: Int, other: object) -> object:
        result = plain(self, other)
        return Int(result) if type(result) is int else result

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "lshift", "rshift"):
    for _side in (f"__{_name}__", f"__r{_name}__"):
        setattr(Int, _side, _wrapped(_side))


class DataType:
    """A type of elements, e.g. ``DataType("float16")``."""

    def __init__(self, name: str) -> None:
        self.name = _SPELLINGS.get(name, name)
        found = _BY_NAME.get(self.name)
        if found is None and self.name != "void":
            raise DTypeError(f"{name!r} is no type of pyasc", f"Known: {', '.join(_BY_NAME)}.")
        self._dtype = found

    @classmethod
    def of(cls, dtype: dtypes.DType) -> DataType:
        """The type of pyasc for one of ours."""
        return cls(dtype.intrinsic)

    @property
    def inner(self) -> dtypes.DType:
        """The type in the kernel language."""
        if self._dtype is None:
            raise DTypeError("void has no elements")
        return self._dtype

    def sizeof(self) -> Int:
        """Bytes of an element."""
        return Int(self.inner.itemsize)

    def is_float(self) -> bool:
        return self.inner.is_float

    def is_int(self) -> bool:
        return not self.inner.is_float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


_BY_NAME = {
    each.intrinsic: each
    for each in (
        dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8, dtypes.UINT16,
        dtypes.UINT32, dtypes.UINT64, dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT, dtypes.DOUBLE,
        dtypes.BOOL,
    )
}  # fmt: skip


class KnownTypes:
    """All types as attributes."""


for _name in (*_BY_NAME, *_SPELLINGS):
    setattr(KnownTypes, _name, DataType(_name))
KnownTypes.int_ = DataType("int32")  # type: ignore[attr-defined]
KnownTypes.float_ = DataType("float32")  # type: ignore[attr-defined]
KnownTypes.bool_ = DataType("bool")  # type: ignore[attr-defined]


class ConstExpr:
    """Marks parameters that are known when a kernel is compiled: ``ConstExpr[int]``."""

    def __class_getitem__(cls, item: object) -> type[ConstExpr]:
        return cls


class Array(list[Any]):
    """A small array in a kernel."""


def array(dtype: DataType, length_or_values: int | Sequence[float], fill_value: Any = 0) -> Array:
    """An array of given values, or of so many equal ones."""
    if isinstance(length_or_values, int):
        return Array([fill_value] * length_or_values)
    return Array(length_or_values)


class Field:
    """A number in a structure."""

    def __init__(
        self, dtype: DataType, default: Any = 0, name: str | None = None, enum: str | None = None
    ) -> None:
        self.dtype, self.default = dtype, default

    def initial(self) -> Any:
        """What it is unless it is given."""
        return self.default


class StructField:
    """A structure in a structure."""

    def __init__(self, struct_cls: type[Struct], default: Any = None, name: str | None = None):
        self.struct_cls, self.default = struct_cls, default

    def initial(self) -> Any:
        """A structure of its own."""
        return self.struct_cls() if self.default is None else copy(self.default)


class Struct:
    """Numbers by name, passed to kernels by value; subclasses list their fields."""

    struct_fields: ClassVar[dict[str, Field | StructField]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        own = {
            name: each for name, each in vars(cls).items() if isinstance(each, Field | StructField)
        }
        cls.struct_fields = cls.struct_fields | own

    def __init__(self, **values: Any) -> None:
        unknown = [name for name in values if name not in self.struct_fields]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {unknown[0]!r}")
        for name, each in self.struct_fields.items():
            setattr(self, name, values[name] if name in values else each.initial())

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.struct_fields:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        whole = isinstance(value, int) and not isinstance(value, bool)
        super().__setattr__(name, Int(value) if whole else value)

    def by_value(self) -> Self:
        """A copy, with the structures in it."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Struct):
                setattr(other, name, value.by_value())
        return other


def fields_of(text: str) -> Iterator[tuple[str, Field]]:
    """Fields of whole numbers, by their names."""
    for name in text.split():
        yield name, Field(KnownTypes.int_, 0)  # type: ignore[attr-defined]
