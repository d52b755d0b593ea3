"""Results that share an object which can be changed: columns have two copies of it, records one object.

What a later function changes in one place, it would change in the other, too. A function whose results may hold one such object
twice is left to rows, where Python's own rules apply. What is known of an expression is which objects it hands on: fields of the
record by their way from it (two ways, of which one begins with the other, lead to a common object), records and lists that are
made by the expression itself. Both branches of a decision are never there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from funken.columnar.expressions import (
    Argument,
    Attribute,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Sequence,
    Unary,
    Unpacked,
    children,
    nodes_of,
)
from funken.columnar.mutation.names import CHANGED, SET, UPDATED, WITHOUT
from funken.dataclass import dataclass
from funken.expr.types import DATACLASS, NAMED_TUPLE, NONE, Atomic, Composite, ListOf, Record, Type

_SchemaOf = Callable[[Expression], Any]
_Branches = Mapping[int, bool]
_CHANGES = (CHANGED, UPDATED, SET, WITHOUT)
_ANY = "any item"
_MOST, _MOST_ADDED = 400, 2000
"""So many objects are compared with one another at most, and so many are looked for."""


@dataclass(frozen=True)
class _Held:
    """An object in a result: a field of an argument by its way from it, or (``made``) one that an expression makes.

    ``of_item``: it is another one for each item of the loop around it.
    """

    root: int
    way: tuple[Any, ...]
    branches: _Branches
    of_item: bool
    made: bool = False

    def may_be(self, other: _Held) -> bool:
        """Return True if one may be the other, or be in it, where both are there."""
        if self.root != other.root or self.made is not other.made:
            return False
        if any(other.branches.get(choice, side) is not side for choice, side in self.branches.items()):
            return False
        shorter = min(len(self.way), len(other.way))
        return self.way[:shorter] == other.way[:shorter]


def changeable(schema: Type | None) -> bool:
    """Return True if values of a schema can be changed, or something in them.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> changeable(Tuple((INT, ListOf(INT)))), changeable(Tuple((INT, Tuple((STR,)))))
    (True, False)
    """
    if schema is None or isinstance(schema, Atomic):
        return schema is not None and isinstance(schema.required, ListOf)
    if isinstance(schema, Record) and schema.form != NAMED_TUPLE:
        params = getattr(schema.cls, "__dataclass_params__", None)
        if schema.form != DATACLASS or params is None or not params.frozen:
            return True
    return any(map(changeable, schema))


def _inner(schema: Type) -> Iterable[Type]:
    """Return the types of what is in values of a schema: of fields, or of items."""
    if isinstance(schema, Atomic):
        return (schema.required.element,) if isinstance(schema.required, ListOf) else ()
    return schema


@dataclass(frozen=True)
class Given:
    """A result, the schemas of its parts, the conditions under which it is given, and the list for whose items, argument 1."""

    result: Expression
    schema_of: _SchemaOf
    conditions: tuple[Expression, ...] = ()
    items: Expression | None = None
    outside: tuple[Expression, ...] = ()


def check_aliases(results: Iterable[Given]) -> None:
    """Raise ``NotVectorizable`` if results hold an object twice that can be changed."""
    found: list[_Held] = []
    for given in results:
        branches = dict(map(_branch, given.conditions))
        items = given.items
        holder = _Holder(given.schema_of, {} if items is None else {1: items})
        holder.add(given.result, branches)
        for each in holder.found:
            fresh = each.made and not any(id(there) == each.root for there in given.outside)
            if items is not None and not each.of_item and not fresh:
                raise NotVectorizable("gives one object several times that can be changed")
            if any(map(each.may_be, found)):
                raise NotVectorizable("gives one object twice that can be changed")
            found.append(each)
        if len(found) > _MOST:
            raise NotVectorizable("gives too many objects that can be changed")


def _branch(condition: Expression) -> tuple[int, bool]:
    if isinstance(condition, Unary) and condition.op == "not":
        return id(condition.operand), False
    return id(condition), True


class _Holder:
    """Collects what a result holds; ``items`` are the lists whose items arguments are."""

    def __init__(self, schema_of: _SchemaOf, items: Mapping[int, Expression]) -> None:
        self._schema_of = schema_of
        self._items = dict(items)
        self.found: list[_Held] = []
        self._added = 0
        #: fields by their record and name, and both: where paths have met, records share their parts
        self._fields: dict[tuple[int, Any], tuple[Expression, Expression]] = {}

    def add(self, expression: Expression, branches: _Branches, within: bool = False) -> None:
        """Add an object, and what is in it if the expression makes it; only what is ``within`` one that is copied."""
        schema = self._schema(expression)
        if schema is not None and not (any(map(changeable, _inner(schema))) if within else changeable(schema)):
            return
        self._added += 1
        if self._added > _MOST_ADDED:
            raise NotVectorizable("gives too many objects that can be changed")
        expression = self._resolved(expression)
        match expression:
            case Sequence(_, result):
                self.add(result, branches, within)
            case Choose(condition, then, otherwise):
                for side, each in ((True, then), (False, otherwise)):
                    if (
                        branches.get(id(condition), side) is side
                    ):  # of a condition that was asked before, one side is there
                        self.add(each, {**branches, id(condition): side}, within)
            case Make(items):
                self._add_all(items, branches)
            case Listed() | MakeRecord():
                if not within:
                    self._make(expression, branches)
                self._add_all(
                    expression.items if isinstance(expression, Listed) else self._values(expression), branches
                )
            case Loop(items, number, _, result):
                self._make(expression, branches)
                inner = _Holder(self._schema_of, {**self._items, number: items})
                inner.add(result, branches)
                if not all(each.of_item for each in inner.found):
                    raise NotVectorizable("makes a list with one object several times that can be changed")
                self.found += inner.found
            case Constant():
                pass
            case _:
                self._take(expression, branches, within)

    def _add_all(self, items: Iterable[Expression], branches: _Branches) -> None:
        for each in items:
            if isinstance(each, Unpacked):
                self.add(each.record, branches, within=True)
            else:
                self.add(each, branches)

    def _values(self, record: MakeRecord) -> Iterator[Expression]:
        """Yield what a record holds: of one that was changed, the new values and what is left of the old one."""
        last = record.items[-1] if record.items else None
        if record.form not in _CHANGES or not isinstance(last, Unpacked):
            yield from record.items
            return
        # A field that was replaced is no longer there.
        names = record.names if record.form == WITHOUT else record.names[:-1]
        if record.form != WITHOUT:
            yield from record.items[:-1]
        schema = self._schema(last.record)
        if isinstance(schema, Record):
            yield from (GetItem(last.record, name) for name in schema.names if name not in names)
        else:
            yield last

    def _make(self, expression: Expression, branches: _Branches) -> None:
        if changeable(self._schema(expression)):
            self._hold_made(expression, branches)

    def _hold_made(self, expression: Expression, branches: _Branches) -> None:
        of_item = any(isinstance(each, Argument) and each.argument in self._items for each in nodes_of(expression))
        self.found.append(_Held(id(expression), (), branches, of_item, made=True))

    def _take(self, expression: Expression, branches: _Branches, within: bool) -> None:
        """Add an object that is taken out of an argument, or computed; or what is within it."""
        schema, way = self._schema(expression), self._way(expression)
        if way is not None and within:
            keys = (
                enumerate(schema)
                if isinstance(schema, Composite)
                else ((_ANY, each) for each in _inner(schema or NONE))
            )
            self.found += [_Held(way[0], (*way[1], key), branches, way[2]) for key, each in keys if changeable(each)]
        elif within or changeable(schema):
            if way is not None:
                self.found.append(_Held(way[0], way[1], branches, way[2]))
                return
            if not within:
                self._hold_made(expression, branches)
            for each in children(expression):
                self.add(each, branches, within=True)

    def _way(self, expression: Expression) -> tuple[int, tuple[Any, ...], bool] | None:
        """Return from which argument, and by which keys, an object is taken; ``None`` if it is computed."""
        expression = self._resolved(expression)
        match expression:
            case Argument(number, path):
                if number not in self._items:
                    return number, path, False
                around = self._way(self._items[number])
                return (
                    (id(self._items[number]), path, True)
                    if around is None
                    else (around[0], (*around[1], _ANY, *path), True)
                )
            case GetItem(record, key) | Attribute(record, key) | Invoke(".get", (record, key, *_)):
                before, schema = self._way(record), self._schema(record)
                if before is None or schema is None:
                    return None
                known = key.value if isinstance(key, Constant) else key
                if isinstance(schema, Record) and isinstance(known, str):
                    known = schema.position(known)
                elif isinstance(schema.required, ListOf) or isinstance(known, Expression):
                    known = _ANY
                elif type(known) is int and isinstance(schema, Composite):
                    known %= max(1, len(schema))
                return before[0], (*before[1], known), before[2]
        return None

    def _resolved(self, expression: Expression) -> Expression:
        """Return a field of a record that an expression makes as what it was made of."""
        match expression:
            case Sequence(_, result):
                return self._resolved(result)
            case GetItem(record, key) | Attribute(record, key):
                known = key.value if isinstance(key, Constant) else key
                if isinstance(known, int | str):
                    if (id(record), known) not in self._fields:
                        self._fields[id(record), known] = record, self._of_record(expression, record, key, known)
                    return self._fields[id(record), known][1]
                return self._of_record(expression, record, key, known)
        return expression

    def _of_record(self, expression: Any, record: Expression, key: Any, known: Any) -> Expression:
        """Return a field of what a record is resolved to."""
        owner = self._resolved(record)
        match owner:
            case Choose(condition, then, otherwise):
                one, other = (self._resolved(GetItem(each, key)) for each in (then, otherwise))
                return one if one is other else Choose(condition, one, other)
            case Make(items) if type(known) is int and not any(isinstance(each, Unpacked) for each in items):
                return self._resolved(items[known]) if -len(items) <= known < len(items) else expression
            case MakeRecord() if isinstance(known, str):
                return self._field(owner, known) or expression
        found: Expression = expression if owner is record else replace(expression, record=owner)
        return found

    def _field(self, record: MakeRecord, name: str) -> Expression | None:
        changes = record.form in _CHANGES
        for own, each in reversed(list(zip(record.names, record.items, strict=True))[: -1 if changes else None]):
            if own == name and record.form != WITHOUT:
                return self._resolved(each)
            if own is None:
                return None
        last = record.items[-1] if changes else None
        return self._resolved(GetItem(last.record, name)) if isinstance(last, Unpacked) else None

    def _schema(self, expression: Expression) -> Type | None:
        try:
            schema: Type = self._schema_of(expression)
        except NotVectorizable:
            return None
        return schema


__all__ = ["Given", "changeable", "check_aliases"]
