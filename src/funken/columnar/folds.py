"""Reduce and aggregate functions as one simple fold per field: what a scan over an array can compute.

A fold defines a field of the result when a record arrives: it stays as it was (``first``), is replaced
(``last``), or is joined with something computed from the record alone (``sum``, ``min``, ``max``). Functions of other forms
run record by record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.columnar.declared import becomes, named_rows
from funken.columnar.expressions import (
    Argument,
    Choose,
    Compare,
    Constant,
    Expression,
    GetItem,
    Listed,
    Make,
    NotVectorizable,
    Sequence,
    Unary,
)
from funken.columnar.faults import reads
from funken.columnar.lists.calls import ALL, ListFold, list_fold
from funken.columnar.records import is_inherited
from funken.columnar.recurrence import ADD, KEEP, LEAST, MOST, comparison_of, recurrence_of
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.operations import with_parts
from funken.dataclass import dataclass
from funken.expr.types import (
    ARRAYS,
    DOCUMENT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    ROW,
    STR,
    Atomic,
    ListOf,
    Record,
    Type,
    atomic_fields,
    types_in,
)
from funken.types.info import TypeInformation

FIRST, LAST, SUM, MIN, MAX = "first", "last", "sum", "min", "max"
EXTREME = {"min_by": MIN, "max_by": MAX}
"""Folds of whole records: every leaf has the same, with the field that decides."""
_HOWS = {ADD: SUM, MOST: MAX, LEAST: MIN}
ORDERED = {"min_of": MIN, "max_of": MAX}
"""The same with several values that decide, one after the other: ``of`` is the tuple of them."""


@dataclass(frozen=True)
class Fold:
    """What becomes of one leaf of the result; ``of`` is computed from the record (argument 0), but for ``first``."""

    how: str
    kind: Atomic
    of: Expression
    bits: int = 64
    """To how many bits a sum of ints wraps."""


@reads
def reduce_folds(
    target: Any, method: str | None, schema: Type, type_info: TypeInformation | None = None
) -> tuple[Traced, tuple[Fold, ...]]:
    """Return the folds of ``reduce(so_far, record)``, one per leaf of records of a shape; raise ``NotVectorizable``.

    ``type_info`` is what results are converted to, if that is declared.

    >>> from funken.expr.types import Tuple
    >>> [fold.how for fold in reduce_folds(lambda a, b: (a[0], a[1] + b[1]), None, Tuple((STR, INT)))[1]]
    ['first', 'sum']
    """
    forms = getattr(target, "columns_folds", None)
    if method is None and forms is not None:
        return Traced(Constant(0)), _of_fields(forms, schema)
    traced, found = named_rows(trace(target, method, 2, changes=True), type_info).typed(schema, schema)
    if found != schema and (type_info is None or not becomes(found, schema, type_info)):
        raise NotVectorizable(f"makes {found} of two {schema}")
    return traced, _folds(traced.result, schema, so_far=0, record=1)


@dataclass(frozen=True)
class Aggregate:
    """An ``AggregateFunction``: how it starts, what it adds, and the accumulator with the leaves of an empty one."""

    created: Traced
    added: Traced
    folds: tuple[Fold, ...]
    schema: Type
    beginnings: tuple[Any, ...]
    result: Traced | None = None
    """What ``get_result`` makes of an accumulator; ``None``: it is called for each."""
    result_schema: Type | None = None
    reason: str = ""
    """Why it is."""
    listed: ListFold | None = None
    """Which records it keeps in a list; ``None``: it has folds."""


@reads
def aggregate_folds(target: Any, schema: Type, type_info: TypeInformation | None = None) -> Aggregate:
    """Return the folds of an ``AggregateFunction`` over records of a shape; raise ``NotVectorizable``.

    ``type_info`` is the declared type of what ``get_result`` makes.
    """
    begun, added = trace(target, "create_accumulator", 0), trace(target, "add", 2, changes=True)
    if begun.result == Listed(()):
        lists = ListOf(schema)
        added, kept = added.typed(schema, lists)
        if kept != lists:
            raise NotVectorizable(f"makes {kept} of {lists}")
        return _with_result(Aggregate(begun, added, (), lists, (), listed=list_fold(added.result)), target, type_info)
    created, empty = begun.typed()
    start = _constant(created.result)
    if types_in(empty) - set(ARRAYS):
        raise NotVectorizable(f"starts from {empty}")
    # An int that a float is added to becomes a float with the first record.
    accumulator = added.typed(schema, empty)[1]
    if [path for path, _ in atomic_fields(accumulator)] != [path for path, _ in atomic_fields(empty)]:
        raise NotVectorizable(f"makes {accumulator} of {empty}")
    added, again = added.typed(schema, accumulator)
    if again != accumulator:
        raise NotVectorizable("changes the type of its accumulator with every record")
    beginnings = []
    for (path, kind), (_, before) in zip(atomic_fields(accumulator), atomic_fields(empty), strict=True):
        value = start
        for index in path:
            value = value[index]
        if kind != before and (kind, before) != (FLOAT, INT):
            raise NotVectorizable(f"makes {kind} of {before}")
        beginnings.append(float(value) if kind == FLOAT else value)
    folds = _folds(added.result, accumulator, so_far=1, record=0)
    return _with_result(Aggregate(created, added, folds, accumulator, tuple(beginnings)), target, type_info)


@reads
def all_records(schema: Type) -> Aggregate:
    """Return the aggregate that a window is whose function gets all records: a list of them."""
    lists, kept = ListOf(schema), Traced(Argument(0))
    return Aggregate(kept, kept, (), lists, (), result=kept, result_schema=lists, listed=ListFold(ALL))


def _with_result(found: Aggregate, target: Any, type_info: TypeInformation | None) -> Aggregate:
    """Return an aggregate with what its ``get_result`` makes."""
    try:
        result, schema = named_rows(trace(target, "get_result", 1, changes=True), type_info).typed(found.schema)
        if any(kind == NONE or kind.is_optional for kind in types_in(schema)):
            raise NotVectorizable("gives None")  # which is no result
    except NotVectorizable as refused:
        return replace(found, reason=f"get_result {refused}")
    return replace(found, result=result, result_schema=schema)


@reads
def merge_folds(merged: Traced, schema: Type) -> tuple[Fold, ...]:
    """Return the folds of ``merge(one, other)``, typed for accumulators of a schema; raise ``NotVectorizable``."""
    return _folds(merged.result, schema, so_far=0, record=1)


def _constant(expression: Expression) -> Any:
    match expression:
        case Constant(value):
            return value
        case Make(items):
            return tuple(_constant(item) for item in items)
    raise NotVectorizable("starts from something that is computed")


def _folds(result: Expression, schema: Type, so_far: int, record: int) -> tuple[Fold, ...]:
    whole = _extreme(result, schema, so_far, record)
    if whole is not None:
        return whole
    return tuple(_fold(_leaf(result, path), path, kind, so_far, record) for path, kind in atomic_fields(schema))


def _extreme(result: Expression, schema: Type, so_far: int, record: int) -> tuple[Fold, ...] | None:
    """Return the folds of ``record if record.field > so_far.field else so_far`` and its variants; ``None`` if it is none.

    Of records with equal fields the first stays, as with ``max(so_far, record, key=...)``: what keeps the last has no kernel.
    """
    match result:
        case Choose(condition, Argument(first, ()), Argument(second, ())) if {first, second} == {so_far, record}:
            pass
        case _:
            return None
    kinds = dict(atomic_fields(schema))
    if isinstance(condition, Sequence):  # of tuples that are compared, made before
        items = [item for each in condition.before for item in (each.items if isinstance(each, Make) else (each,))]
        if any(_deciding(item, kinds) is None for item in items):
            return None
        condition = condition.result

    def decides(each: Expression) -> tuple[int, Expression] | None:
        return _deciding(each, kinds)

    def of_own(each: Expression) -> bool:
        found = decides(each)
        return found is not None and found[0] == so_far

    compared = comparison_of(condition, of_own, negated=first == so_far)
    if compared is None or not compared.strict:
        return None
    of = list(map(decides, compared.own))
    new = list(map(decides, compared.new))
    if any(one is None or other is None or one[1] != other[1] for one, other in zip(of, new, strict=True)):
        return None
    deciding = tuple(each[1] for each in of if each is not None)
    if len(deciding) == 1 and isinstance(deciding[0], Argument) and kinds[deciding[0].path] == INT:
        how = "max_by" if compared.how == MOST else "min_by"
        return tuple(Fold(how, each, deciding[0]) for _, each in atomic_fields(schema))
    how = "max_of" if compared.how == MOST else "min_of"
    return tuple(Fold(how, each, Make(deciding)) for _, each in atomic_fields(schema))


def _deciding(expression: Expression, kinds: dict[tuple[int, ...], Atomic]) -> tuple[int, Expression] | None:
    """Return of which argument a value is, and what of it, if it is an int or text of its own, or an int negated."""
    match _plain(expression):
        case Argument(argument, path) if kinds.get(path) in (INT, STR):
            return argument, Argument(0, path)
        case GetItem(Make(items), index) if all(_deciding(each, kinds) is not None for each in items):
            return _deciding(items[index], kinds)
        case Unary("-", operand):
            found = _deciding(operand, kinds)
            if found is not None and isinstance(found[1], Argument) and kinds[found[1].path] == INT:
                return found[0], Unary("-", found[1])
    return None


def _leaf(expression: Expression, path: tuple[int, ...]) -> Expression:
    """Return the expression of one leaf of a result."""
    if isinstance(expression, Sequence):
        # What was evaluated before is part of the result or of a test, or it would have been refused: it raises nothing new.
        if any(not isinstance(each, Argument | GetItem) for each in expression.before):
            raise NotVectorizable("computes something that is not part of its result")
        return _leaf(expression.result, path)
    if isinstance(expression, Choose) and path:
        if not _is_total(expression.condition):
            raise NotVectorizable("chooses between whole records by something that may raise")
        then, otherwise = _leaf(expression.then, path), _leaf(expression.otherwise, path)
        # Compared as text: a 1 is not a 1.0 here.
        return then if repr(then) == repr(otherwise) else replace(expression, then=then, otherwise=otherwise)
    for depth, index in enumerate(path):
        if isinstance(expression, Make):
            expression = expression.items[index]
        elif isinstance(expression, Argument):
            return Argument(expression.argument, (*expression.path, *path[depth:]))
        else:
            raise NotVectorizable("chooses between whole records")
    return _plain(expression)


def _is_total(expression: Expression) -> bool:
    """Whether evaluating it never raises."""
    match expression:
        case Compare(_, left, right):
            return _is_total(left) and _is_total(right)
        case Unary(op, operand):
            return op in ("not", "bool") and _is_total(operand)
        case GetItem(record):
            return _is_total(record)
    return isinstance(expression, Argument | Constant)


def _plain(expression: Expression) -> Expression:
    """Return items of arguments as what they are: inputs."""
    if isinstance(expression, GetItem):
        record = _plain(expression.record)
        if isinstance(record, Argument):
            return Argument(record.argument, (*record.path, expression.index))
    return expression


def _fold(expression: Expression, path: tuple[int, ...], kind: Atomic, so_far: int, record: int) -> Fold:
    old = Argument(so_far, path)
    found = recurrence_of(expression, lambda each: _plain(each) == old, _plain)
    if found.how == KEEP:
        return Fold(FIRST, kind, Argument(0, path))
    if isinstance(expression, Argument) and expression.argument == so_far:
        raise NotVectorizable("moves a field of the result so far to another field")
    how = _HOWS.get(found.how)
    if how is not None and (kind == INT or (kind == FLOAT and how == SUM)):
        return Fold(how, kind, _of_record(found.of, so_far, record))
    does = "chooses between" if isinstance(expression, Choose) else "joins"
    return Fold(LAST, kind, _of_record(expression, so_far, record, does))


def _of_record(expression: Expression, so_far: int, record: int, does: str = "joins") -> Expression:
    """Return an expression over the record alone, as argument 0."""
    match expression:
        case Argument(argument, path):
            if argument != record:
                raise NotVectorizable(f"{does} the result so far and the record in a way that has no kernel")
            return Argument(0, path)
    return with_parts(expression, lambda each: _of_record(each, so_far, record, does))


def _numbered(position: Any, schema: Record) -> int:
    """Return the number of a field of records with names."""
    found = schema.position(position) if type(position) is str else position
    by_number = type(position) is int and position >= 0 and schema.form in (NAMED_TUPLE, ROW)
    if schema.form == DOCUMENT or found is None or not (type(position) is str or by_number):
        raise NotVectorizable(f"takes the field {position!r} of {schema}")
    if schema.form == NAMED_TUPLE and not is_inherited(schema.cls or tuple, "_replace"):
        raise NotVectorizable(f"replaces a field of {schema} in a way of its own")
    return int(found)


def _of_fields(forms: tuple[tuple[str, Any], ...], schema: Type) -> tuple[Fold, ...]:
    """Return the folds of functions that say which fields they fold, and how; all other fields stay the first record's."""
    leaves = atomic_fields(schema)
    hows: dict[tuple[int, ...], str] = {}
    for how, position in forms:
        wanted = _path_of(position, schema)
        if wanted in hows or all(path != wanted for path, _ in leaves):
            raise NotVectorizable(f"has no single field there in {schema}")
        hows[wanted] = how
        if how in EXTREME:
            # One fold of the whole record: all its leaves are those of the record that has the least or greatest value.
            if dict(leaves)[wanted] != INT:
                raise NotVectorizable(f"takes the {how} of a {dict(leaves)[wanted]}")
            return tuple(Fold(how, kind, Argument(0, wanted)) for _, kind in leaves)
    for path, kind in leaves:
        how = hows.get(path, FIRST)
        if how not in (FIRST, LAST) and (kind not in (INT, FLOAT) or (how != SUM and kind != INT)):
            raise NotVectorizable(f"takes the {how} of a {kind}")
    return tuple(Fold(hows.get(path, FIRST), kind, Argument(0, path)) for path, kind in leaves)


def _path_of(position: Any, schema: Type) -> tuple[int, ...]:
    """Return the path of a field that is named by position or name."""
    if isinstance(schema, Record):
        position = _numbered(position, schema)
    elif type(position) is not int:
        raise NotVectorizable(f"names the field {position!r}")
    if isinstance(schema, Atomic) and position == 0:
        return ()
    if isinstance(schema, Atomic) or not -len(schema) <= position < len(schema):
        raise NotVectorizable(f"has no single field there in {schema}")
    return (position % len(schema),)


__all__ = [
    "EXTREME", "FIRST", "LAST", "MAX", "MIN", "ORDERED", "SUM", "Aggregate", "Fold", "aggregate_folds", "all_records",
    "merge_folds", "reduce_folds",
]  # fmt: skip
