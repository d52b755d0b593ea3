"""Rows without names in a function whose results have a declared type: the type names their fields, or makes them tuples.

``Row(1, 2)`` is no record that columns have a schema for. But where it is a result, the type makes of it what it makes of a
row with its names, or of a tuple.
"""

from __future__ import annotations

from dataclasses import replace

from funken.columnar.expressions import Choose, Expression, Make, MakeRecord, Sequence
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.tracing import Traced
from funken.expr.types import DICT, ROW, UNNAMED_ROW
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation


def named_rows(traced: Traced, type_info: TypeInformation | None) -> Traced:
    """Return a function with rows that have names, as far as their type says them.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.tracing import trace
    >>> from funken.types import Row, Types
    >>> traced = trace(lambda pair: Row(pair[1], 1), None, 1)
    >>> named_rows(traced, Types.ROW([Types.STRING(), Types.INT()])).typed(Tuple((INT, STR)))[1]
    Row(f0: str, f1: int)
    """
    return traced if type_info is None else replace(traced, result=_named(traced.result, type_info))


def named_rows_of_all(traced: TracedFlatMap, type_info: TypeInformation | None) -> TracedFlatMap:
    """Return a function that gives any number of results, in the same way; side outputs have types of their own."""
    if type_info is None:
        return traced
    emissions = (
        each if each.side is not None else replace(each, result=_named(each.result, type_info))
        for each in traced.emissions
    )
    return replace(traced, emissions=tuple(emissions))


def _named(made: Expression, type_info: TypeInformation) -> Expression:
    if not isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        return made
    match made:
        case Sequence(_, result):
            return replace(made, result=_named(result, type_info))
        case Choose(_, then, otherwise):
            return replace(made, then=_named(then, type_info), otherwise=_named(otherwise, type_info))
        case Make(items) if len(items) == len(type_info.field_types):
            return Make(_all_named(items, type_info))
        case MakeRecord(form, _, items) if form == UNNAMED_ROW and len(items) == len(type_info.field_types):
            items = _all_named(items, type_info)
            if isinstance(type_info, RowTypeInfo):
                return MakeRecord(ROW, tuple(type_info.get_field_names()), items)
            return Make(items)
        case MakeRecord(form, names) if form in (ROW, DICT) and isinstance(type_info, RowTypeInfo):
            types = dict(zip(type_info.get_field_names(), type_info.field_types, strict=True))
            items = tuple(
                _named(each, types[name]) if name in types else each
                for name, each in zip(names, made.items, strict=True)
            )
            return replace(made, items=items)
    return made


def _all_named(items: tuple[Expression, ...], type_info: RowTypeInfo | TupleTypeInfo) -> tuple[Expression, ...]:
    return tuple(map(_named, items, type_info.field_types))


__all__ = ["named_rows", "named_rows_of_all"]
