"""What states with a declared type keep of values, as expressions: of the shape of the type, with floats of 32 bits rounded.

What a state keeps of a record is of one schema, that of its type (``kept_schema``); a value of another one is refused where it is
typed. Ints of few bits stay as they are in what is written, for sums of these are computed at once: a block with one that is too
large goes to the function. Where a value is read again behind its write, it is wrapped (``seen``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from funken.columnar.declared.conversions import BITS
from funken.columnar.expressions import (
    Choose,
    Expression,
    GetItem,
    Invoke,
    Make,
    MakeRecord,
    NotVectorizable,
    Rowwise,
    Sequence,
    Unpacked,
)
from funken.expr.python.numbers import AS_FLOAT_32, AS_INTS
from funken.expr.types import BOOL, DICT, FLOAT, INT, ROW, STR, UNNAMED_ROW, Record, Tuple, Type
from funken.types.info import BasicType, BasicTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation

Path = tuple[int, ...]
_KINDS = {BasicType.STRING: STR, BasicType.DOUBLE: FLOAT, BasicType.FLOAT: FLOAT, BasicType.BOOLEAN: BOOL}
_KINDS |= {BasicType.CHAR: STR, BasicType.BIG_INT: INT, **dict.fromkeys(BITS, INT)}


def kept_schema(type_info: TypeInformation) -> Type | None:
    """Return the schema of what a state of a type keeps; ``None``: columns do not keep it.

    >>> from funken.types import Types
    >>> kept_schema(Types.TUPLE([Types.STRING(), Types.ROW([Types.INT()])])), kept_schema(Types.LIST(Types.INT()))
    ((str, Row(f0: int)), None)
    """
    if type(type_info) is BasicTypeInfo:
        return _KINDS.get(type_info.basic_type)
    if not isinstance(type_info, TupleTypeInfo | RowTypeInfo) or not type_info.field_types:
        return None
    fields = [kept_schema(each) for each in type_info.field_types]
    known = Tuple(each for each in fields if each is not None)
    if len(known) < len(fields):
        return None
    if isinstance(type_info, TupleTypeInfo):
        return known
    names = tuple(type_info.get_field_names())
    return Record(known, ROW, names) if len(set(names)) == len(names) else None


def bits_of_leaves(type_info: TypeInformation | None) -> dict[Path, int]:
    """Return of ints, and floats, with fewer than 64 bits how many they have.

    >>> from funken.types import Types
    >>> bits_of_leaves(Types.TUPLE([Types.LONG(), Types.SHORT(), Types.TUPLE([Types.FLOAT()])]))
    {(1,): 16, (2, 0): 32}
    """
    if isinstance(type_info, TupleTypeInfo | RowTypeInfo):
        inner = enumerate(map(bits_of_leaves, type_info.field_types))
        return {(number, *path): bits for number, each in inner for path, bits in each.items()}
    if not isinstance(type_info, BasicTypeInfo):
        return {}
    bits = 32 if type_info.basic_type is BasicType.FLOAT else BITS.get(type_info.basic_type, 64)
    return {} if bits == 64 else {(): bits}


def kept(value: Expression, type_info: TypeInformation | None) -> Expression:
    """Return what is written of a value.

    >>> from funken.columnar.expressions import Argument
    >>> from funken.types import Types
    >>> kept(Make((Argument(0), Argument(1))), Types.TUPLE([Types.FLOAT(), Types.INT()])).items[0]
    Rowwise(function='float of 32 bits', arguments=(Argument(argument=0, path=()),), kind=float)
    """
    return value if type_info is None else _shaped(value, type_info, _rounded)


def seen(value: Expression, type_info: TypeInformation | None) -> Expression:
    """Return what is read of a value that was written for the same record."""
    return value if type_info is None else _shaped(value, type_info, _converted)


def named(value: Expression, type_info: TypeInformation) -> Expression:
    """Return a value whose rows have the names that a type gives them, as far as they are made in it."""
    return _shaped(value, type_info, _as_it_is)


_OfLeaf = Callable[[Expression, BasicTypeInfo], Expression]


def _as_it_is(value: Expression, type_info: BasicTypeInfo) -> Expression:
    return value


def _rounded(value: Expression, type_info: BasicTypeInfo) -> Expression:
    return Rowwise(AS_FLOAT_32, (value,), FLOAT) if type_info.basic_type is BasicType.FLOAT else value


def _converted(value: Expression, type_info: BasicTypeInfo) -> Expression:
    if type_info.basic_type is BasicType.DOUBLE:
        return Invoke("float", (value,))
    bits = BITS.get(type_info.basic_type, 64)
    return _rounded(value, type_info) if bits == 64 else Rowwise(AS_INTS[bits], (value,), INT)


def _shaped(value: Expression, type_info: TypeInformation, of_leaf: _OfLeaf) -> Expression:
    again = partial(_shaped, type_info=type_info, of_leaf=of_leaf)
    match value:
        case Sequence(_, result):
            return replace(value, result=again(result))
        case Choose(_, then, otherwise) if not isinstance(type_info, BasicTypeInfo):
            return replace(value, then=again(then), otherwise=again(otherwise))
    if isinstance(type_info, BasicTypeInfo):
        return of_leaf(value, type_info)
    if not isinstance(type_info, TupleTypeInfo | RowTypeInfo):
        return value
    items = _items(value, type_info)
    if items is None:
        rounds = of_leaf is _rounded and not _has_floats(type_info)
        if of_leaf is _as_it_is or rounds or not bits_of_leaves(type_info):
            return value
        if isinstance(type_info, RowTypeInfo):
            raise NotVectorizable("keeps records of a declared type, which converts values")
        items = [GetItem(value, number) for number in range(len(type_info.field_types))]
    made = tuple(_shaped(*each, of_leaf) for each in zip(items, type_info.field_types, strict=True))
    return Make(made) if isinstance(type_info, TupleTypeInfo) else MakeRecord(ROW, tuple(_names(type_info)), made)


def _names(type_info: RowTypeInfo) -> list[str]:
    names: list[str] = type_info.get_field_names()
    return names


def _has_floats(type_info: Any) -> bool:
    if isinstance(type_info, BasicTypeInfo):
        return type_info.basic_type is BasicType.FLOAT
    return any(map(_has_floats, type_info.field_types))


def _items(value: Expression, type_info: TupleTypeInfo | RowTypeInfo) -> list[Expression] | None:
    """Return what becomes the fields of a tuple or row, where a value is put together of these; ``None``: it is not."""
    width = len(type_info.field_types)
    match value:
        case Make(items) if len(items) == width and not any(isinstance(each, Unpacked) for each in items):
            return list(items)
        case MakeRecord(form, _, items) if form == UNNAMED_ROW and len(items) == width:
            return list(items)
        case MakeRecord(form, names, items) if form in (ROW, DICT) and isinstance(type_info, RowTypeInfo):
            wanted = _names(type_info)
            if len(names) == width and set(names) == set(wanted):
                return [items[names.index(name)] for name in wanted]
    return None


__all__ = ["bits_of_leaves", "kept", "kept_schema", "named", "seen"]
