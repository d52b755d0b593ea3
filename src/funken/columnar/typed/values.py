"""Expressions whose schemas are known: whether they may raise, when they are true, and the fields of records in them.

Fields are taken out, put together, replaced and compared by their positions.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Several
from dataclasses import replace
from typing import Any, TypeGuard

from funken.columnar.expressions import (
    Argument,
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
    Rowwise,
    Sequence,
    Unpacked,
    bare,
    children,
    nodes_of,
    number_as_float,
    schema_of_value,
)
from funken.columnar.records import is_inherited
from funken.columnar.typed.operations import (
    CHANGED,
    SET,
    UPDATED,
    WITHOUT,
    Typed,
    is_partition,
    item_of_list,
    item_of_match,
    may_raise,
    operated,
    unsplit,
)
from funken.dataclass import dataclass
from funken.expr.python.table import (
    CLASSES,
    DATE,
    DATETIME,
    DECIMAL,
    DUMPS,
    MATCH,
    TIMEDELTA,
    JsonOptions,
    kind_of_object,
    literal_of,
    table_kinds,
    table_of_items,
    value_as_json,
)
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DATACLASS,
    DICT,
    DOCUMENT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    NUMBER,
    ROW,
    STR,
    Atomic,
    Composite,
    ListOf,
    Record,
    Tuple,
    Type,
    has_documents,
    optional,
    types_in,
)
from funken.types.row import Row


def after(before: Several[Expression], result: Expression) -> Expression:
    """Return a result that is computed after expressions whose exceptions alone are of interest."""
    needed = tuple(each for each in map(unsplit, before) if may_raise(each))
    if not needed:
        return result
    return (
        Sequence((*needed, *result.before), result.result) if isinstance(result, Sequence) else Sequence(needed, result)
    )


def check_known(schema: Type) -> None:
    """Raise ``NotVectorizable`` for a type of values that are passed on, but of which nothing is known here."""
    if isinstance(schema, Atomic) and schema.required not in CLASSES and not isinstance(schema.required, ListOf):
        raise NotVectorizable(f"computes with a {schema}")


def truth(made: Expression, schema: Type) -> Expression:
    """Return the truth of values."""
    made, schema = number_as_float(made, schema)
    check_known(schema)
    if schema == BOOL:
        return made
    if isinstance(schema, Atomic):
        if schema in ARRAYS:
            return Constant(bool(made.value)) if isinstance(made, Constant) else Invoke("bool", (made,))
        return after([made], Constant(False)) if schema == NONE else found_text(made) or Rowwise("truth", (made,), BOOL)
    if isinstance(schema, Record) and schema.form == DATACLASS:
        cls = schema.cls
        if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
            raise NotVectorizable(f"asks whether a {schema_name(schema)} is true")
    elif isinstance(schema, Record) and (schema.form == DOCUMENT or "__bool__" in vars(schema.cls or dict)):
        raise NotVectorizable(f"asks whether a {schema_name(schema)} is true")
    return after([made], Constant(bool(schema)))


def found_text(made: Expression) -> Expression | None:
    """Return whether a regular expression that is nothing but a text is found, without a match; ``None`` if it is more."""
    match made:
        case Rowwise("search" | "match" | "fullmatch" as how, (Constant(pattern), text)):
            literal = literal_of(pattern)
            if literal is None:
                return None
            part = Constant(literal)
            if how == "search":
                return Invoke("in", (part, text))
            return Invoke("str.startswith", (text, part)) if how == "match" else Invoke("==", (text, part))
    return None


def is_none(made: Expression) -> Expression:
    """Return a test of values for ``None``."""
    found = found_text(made)
    return Rowwise("is None", (made,), BOOL) if found is None else Invoke("not", (found,))


def type_tested(operand: Typed, classes: tuple[type, ...], exact: bool) -> Expression:
    """Return a test of values for one of the classes, as kernels compute it."""
    made, schema = operand
    check_known(schema)
    maybe = schema.is_optional
    own = type_of(schema.required if isinstance(schema, Atomic) else schema)
    fits = own in classes if exact else issubclass(own, classes)
    none = type(None) in classes or (object in classes and not exact)
    if maybe and fits != none:
        missing = is_none(made)
        return Invoke("not", (missing,)) if fits else missing
    return after([made], Constant(fits))


def is_empty(schema: Type) -> bool:
    """Return True if a schema is that of a record without fields, or has one in it."""
    return not isinstance(schema, Atomic) and (not schema or any(map(is_empty, schema)))


def schema_name(schema: Record) -> str:
    """Return the name of a class of records."""
    return schema.cls.__name__ if schema.cls else schema.form


def kind_of_constant(value: Any) -> Type:
    """Return the schema of a constant; raise ``NotVectorizable`` if it has none."""
    schema = schema_of_value(value)
    found = schema if schema is not None else kind_of_object(value)
    if found is None:
        name = type(value).__name__
        raise NotVectorizable(f"uses {'an' if name[0] in 'aeiou' else 'a'} {name}")
    return found


def type_of(schema: Type) -> type:
    """Return the exact type of values of a schema."""
    if isinstance(schema, Atomic):
        return list if isinstance(schema, ListOf) else CLASSES[schema]
    if isinstance(schema, Record):
        return schema.cls or (dict if schema.form in (DICT, DOCUMENT) else Row)
    return tuple


_Of = Callable[[Expression], Typed]
_MOST_ORDERED = 8


def project(record: Typed, index: int) -> Typed:
    """Return a field by its position."""
    made, schema = record
    assert not isinstance(schema, Atomic)
    index %= len(schema)
    if isinstance(made, Argument):
        return replace(made, path=(*made.path, index)), schema[index]
    if isinstance(made, Make) and all(map(is_partition, made.items)):
        return made.items[index], schema[index]  # the others cannot raise
    return GetItem(made, index), schema[index]


def negated(condition: Expression) -> Expression:
    """Return the negation of a condition."""
    match condition:
        case Constant(value):
            return Constant(not value)
        case Invoke("not", (operand,)):
            return operand
    return Invoke("not", (condition,))


def spread(record: Typed) -> list[Typed]:
    """Return all fields of a tuple."""
    if not is_tuple(record[1]):
        raise NotVectorizable(f"unpacks {record[1]}")
    return [project(record, index) for index in range(len(record[1]))]


def is_tuple(schema: Type) -> TypeGuard[Composite]:
    """Return True if records of a schema behave as tuples."""
    return not isinstance(schema, Atomic) and (
        type(schema) is Tuple or (isinstance(schema, Record) and schema.form == NAMED_TUPLE)
    )


def item_schema(schema: Type, index: int) -> Type:
    """Return the schema of a field by its position; raise ``NotVectorizable``."""
    if isinstance(schema, Atomic):
        raise NotVectorizable(f"takes an item of {schema}")
    if not -len(schema) <= index < len(schema):
        raise NotVectorizable(f"takes item {index} of {schema}")
    return schema[index]


def item(record: Typed | None, traced: Expression, index: Any, of: int | None, typed: _Of) -> Typed:
    """Return an item of anything that has items; ``record`` is ``None`` for a constant dict."""
    given = index if isinstance(index, Expression) else Constant(index)
    constant = given.value if isinstance(given, Constant) else None
    if record is None:
        assert isinstance(traced, Constant)
        kinds = table_kinds(traced.value)
        assert kinds is not None
        key, kind = typed(given)
        if not isinstance(kind, Atomic):
            raise NotVectorizable("looks up a record")
        return Rowwise("item", (traced, key), kinds[1]), kinds[1]
    made, schema = record
    if isinstance(schema, Atomic):
        return _item_of_value(made, schema, typed(given), of)
    if isinstance(schema, Record) and schema.form in (DICT, DOCUMENT, ROW) and type(constant) is str:
        position = schema.position(constant)
        if position is None:
            raise NotVectorizable(f"takes the item {constant!r} of {schema}")
        return project(record, position)
    if type(constant) is not int:
        return _item_of_constants(made, schema, typed(given), of)
    if isinstance(schema, Record) and schema.form in (DICT, DOCUMENT, DATACLASS):
        raise NotVectorizable(f"takes item {constant} of {schema}")
    if of is not None and len(schema) != of:
        raise NotVectorizable(f"unpacks {of} values from {schema}")
    item_schema(schema, constant)
    return project(record, constant)


def _item_of_constants(made: Expression, schema: Type, index: Typed, of: int | None) -> Typed:
    """Return the item at a computed place of a tuple of constants of one type."""
    items = made.items if isinstance(made, Make) and type(schema) is Tuple and of is None else ()
    table = table_of_items([each.value for each in items if isinstance(each, Constant)])
    kinds = table_kinds(table)
    if kinds is None or len(table) != 2 * len(items) or index[1] != INT:
        raise NotVectorizable("takes an item by something else than a constant")
    return Rowwise("item", (Constant(table), index[0]), kinds[1]), kinds[1]


def _item_of_value(made: Expression, schema: Atomic, index: Typed, of: int | None) -> Typed:
    if isinstance(schema, ListOf):
        return item_of_list(made, schema, index, of)
    if of is not None:
        raise NotVectorizable(f"unpacks {of} values from {schema}")
    if schema == MATCH:
        return item_of_match(made, index)
    found = operated("item", [(made, schema), index])
    if found is None:
        raise NotVectorizable(f"takes an item of {schema}")
    return found


def attribute(record: Typed, name: str) -> Typed:
    """Return an attribute."""
    schema = record[1]
    if isinstance(schema, Record) and schema.form not in (DICT, DOCUMENT):
        position = schema.position(name)
        if position is not None and not (schema.form == ROW and (hasattr(Row, name) or name.startswith("_"))):
            return project(record, position)
    elif isinstance(schema, Atomic) and (found := operated(f"@{schema}.{name}", [record])) is not None:
        return found
    raise NotVectorizable(f"uses the attribute {name!r} of {schema}")


def cut(record: Typed, bounds: list[Typed]) -> Typed:
    """Return a slice of a text, of a list of texts or of a tuple."""
    made, schema = record
    found = operated("slice", [record, *bounds])
    if found is not None:
        return found
    if is_tuple(schema) and all(isinstance(each, Constant) for each, _ in bounds):
        part = slice(*(each.value for each, _ in bounds if isinstance(each, Constant)))
        kept = [project(record, index) for index in range(len(schema))[part]]
        if kept:
            return after([made], Make(tuple(each for each, _ in kept))), Tuple(kind for _, kind in kept)
    raise NotVectorizable(f"takes a slice of {schema}")


def record(made: MakeRecord, of: _Of) -> Typed:
    """Return a record with named fields, as the tuple of its fields."""
    dropped: list[Expression] = []
    fields: dict[str, Typed] = {}
    for name, each in zip(made.names, made.items, strict=True):
        new = {name: of(each)} if name is not None else _named(each, of)
        dropped += [fields[again][0] for again in new if again in fields]
        fields |= new
    items, schemas = zip(*fields.values(), strict=True) if fields else ((), ())
    return after(dropped, Make(items)), Record(schemas, made.form, tuple(fields), made.cls)


def _named(each: Expression, of: _Of) -> dict[str, Typed]:
    if not isinstance(each, Unpacked):
        raise NotVectorizable("makes a Row without names: declare its type, output_type=Types.ROW([...])")
    found = of(each.record)
    if not isinstance(found[1], Record) or found[1].form != DICT:
        raise NotVectorizable(f"unpacks {found[1]} with **")
    return {name: project(found, index) for index, name in enumerate(found[1].names)}


def as_dict(found: Typed, form: str) -> Typed:
    """Return the fields of a named tuple or row as a dict."""
    made, schema = found
    if not isinstance(schema, Record) or schema.form != form:
        raise NotVectorizable(f"makes a dict of {schema}")
    items = tuple(project(found, index)[0] for index in range(len(schema)))
    return after([made], Make(items)), Record(schema, DICT, schema.names)


def combined(op: str, left: Typed, right: Typed) -> Typed:
    """Return tuples one after the other, or two dicts in one."""
    (one, left_schema), (other, right_schema) = left, right
    if op == "+" and is_tuple(left_schema) and is_tuple(right_schema):
        items = spread(left) + spread(right)
        return after([one, other], Make(tuple(each for each, _ in items))), Tuple(schema for _, schema in items)
    if op == "|" and all(isinstance(each, Record) and each.form == DICT for each in (left_schema, right_schema)):
        assert isinstance(left_schema, Record)
        assert isinstance(right_schema, Record)
        merged = {name: project(left, index) for index, name in enumerate(left_schema.names)}
        merged |= {name: project(right, index) for index, name in enumerate(right_schema.names)}
        schema = Record((each for _, each in merged.values()), DICT, tuple(merged))
        return after([one, other], Make(tuple(each for each, _ in merged.values()))), schema
    raise NotVectorizable(f"computes {left_schema} {op} {right_schema}")


def has_key(schema: Type, key: Any) -> bool:
    """Return True if a dict of a schema has a key; raise ``NotVectorizable`` for other records."""
    if isinstance(schema, Record) and schema.form == DICT:
        return key in schema.names
    if isinstance(schema, Record) and schema.form == DOCUMENT and key in schema.names:
        return True
    raise NotVectorizable("tests with 'in' something else than constants")


def compared(op: str, left: Typed, right: Typed) -> Expression:
    """Return a comparison as kernels compute it."""
    left, right = number_as_float(*left), number_as_float(*right)
    (one, left_schema), (other, right_schema) = left, right
    check_known(left_schema)
    check_known(right_schema)
    refused = NotVectorizable(f"compares {left_schema} {op} {right_schema}")
    if not isinstance(left_schema, Atomic) or not isinstance(right_schema, Atomic):
        found = compared_tuples(op, left, right)
        if found is None:
            raise refused
        return found
    made = operated(op, [left, right])
    if made is not None:
        return made[0]
    arrays = left_schema in ARRAYS and right_schema in ARRAYS
    nothing = NONE in (left_schema, right_schema) and not (left_schema.is_optional or right_schema.is_optional)
    if op in ("==", "!=") and (arrays or nothing):  # of two types
        return after([one, other], Constant(op == "!="))
    raise refused


def compared_tuples(op: str, left: Typed, right: Typed) -> Expression | None:
    """Return a comparison of two tuples, field by field; ``None`` if there is no kernel.

    Python takes equal objects for equal without asking them, so a NaN may equal itself there: floats are left out.
    """
    one, other = left[1], right[1]
    if not is_tuple(one) or not is_tuple(other) or not (types_in(one) | types_in(other)) <= {INT, STR, BOOL}:
        return None
    if any(isinstance(each, Record) and _overrides(each) for each in (one, other)):
        return None
    pairs = list(zip(spread(left), spread(right), strict=False))
    if op in ("==", "!="):
        if len(one) != len(other):
            return after([left[0], right[0]], Constant(op == "!="))
        found: Expression = Constant(True)
        for pair in reversed(pairs):
            equal = compared("==", *pair)
            found = equal if found == Constant(True) else Choose(equal, found, Constant(False))
        found = found if op == "==" else Choose(found, Constant(False), Constant(True))
        return after([left[0], right[0]], found)
    if len(one) != len(other) or len(one) > _MOST_ORDERED:
        return None
    *before, last = pairs
    found = compared(op, *last)
    for pair in reversed(before):
        found = Choose(compared("==", *pair), found, compared(op[0], *pair))
    return after([left[0], right[0]], found)


def _overrides(schema: Record) -> bool:
    return any(hook in vars(schema.cls) for hook in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))


def _alike(one: Record, other: Record) -> bool:
    return (one.form, one.names, one.cls) == (other.form, other.names, other.cls)


def unified(one: Type, other: Type) -> Type:
    """Return the schema of values that are sometimes of one schema, sometimes of another."""
    if one == other:
        return one
    if isinstance(one, Atomic) and isinstance(other, Atomic):
        if NONE in (one, other) or one.required == other.required:
            return optional(other if one == NONE else one)
    elif isinstance(one, Tuple) and isinstance(other, Tuple) and len(one) == len(other):
        return Tuple(unified(*pair) for pair in zip(one, other, strict=True))
    elif isinstance(one, Record) and isinstance(other, Record) and _alike(one, other):
        return Record(map(unified, one, other), one.form, one.names, one.cls)
    raise NotVectorizable(f"gives sometimes {one} and sometimes {other}")


# ---- Results that share an object which can be changed: columns have two copies of it, records one object.
#
# What a later function changes in one place, it would change in the other, too. A function whose results may hold
# one such object twice is left to rows, where Python's own rules apply. What is known of an expression is which
# objects it hands on: fields of the record by their way from it (two ways, of which one begins with the other, lead
# to a common object), records and lists that are made by the expression itself. Both branches of a decision are
# never there at once.


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
    """Return the types within values of a schema: of fields, or of items."""
    if isinstance(schema, Atomic):
        return (schema.required.element,) if isinstance(schema.required, ListOf) else ()
    return schema


@dataclass(frozen=True)
class Given:
    """A result, the schemas of its parts, its conditions, and the list for whose items, argument 1."""

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
    test, negated = bare(condition)
    return id(test), not negated


class _Holder:
    """Collects the objects that a result holds; ``items`` are the lists whose items arguments are."""

    def __init__(self, schema_of: _SchemaOf, items: Mapping[int, Expression]) -> None:
        self._schema_of = schema_of
        self._items = dict(items)
        self.found: list[_Held] = []
        self._added = 0
        #: fields by their record and name, and both: where paths have met, records share their parts
        self._fields: dict[tuple[int, Any], tuple[Expression, Expression]] = {}

    def add(self, expression: Expression, branches: _Branches, within: bool = False) -> None:
        """Add an object, and its content if the expression makes it; only the objects ``within`` one that is copied."""
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
        """Yield the values of a record: of one that was changed, the new values and the rest of the old one."""
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
        """Add an object that is taken out of an argument, or computed; or the objects within it."""
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
            case (
                GetItem(record, key) | Invoke("attribute", (record, Constant(key))) | Invoke(".get", (record, key, *_))
            ):
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
        """Return a field of a record that an expression makes as the field's own expression."""
        match expression:
            case Sequence(_, result):
                return self._resolved(result)
            case GetItem(record, key) | Invoke("attribute", (record, Constant(key))):
                known = key.value if isinstance(key, Constant) else key
                if isinstance(known, int | str):
                    if (id(record), known) not in self._fields:
                        self._fields[id(record), known] = record, self._of_record(expression, record, key, known)
                    return self._fields[id(record), known][1]
                return self._of_record(expression, record, key, known)
        return expression

    def _of_record(self, expression: Any, record: Expression, key: Any, known: Any) -> Expression:
        """Return a field of the resolved form of a record."""
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


# ---- Changed records, once their schemas are known: as the tuples of their fields that they are to kernels.


REPLACE, REPLACE_TUPLE = "replace", "_replace"
"""Forms of a ``MakeRecord`` that is another one with some fields replaced."""
CHANGES = (CHANGED, UPDATED, SET, WITHOUT, REPLACE, REPLACE_TUPLE)
_FORMS = {CHANGED: (DICT, DOCUMENT, ROW), UPDATED: (DICT, DOCUMENT), SET: (DATACLASS, ROW), WITHOUT: (DICT,)}
_GROWING = (DICT, DOCUMENT)


def changed_record(made: MakeRecord, of: _Of) -> Typed:
    """Return a record after a change, or a new one with some fields replaced; raise ``NotVectorizable``."""
    if made.form in (REPLACE, REPLACE_TUPLE):
        return _replaced(made, of)
    last = made.items[-1]
    assert isinstance(last, Unpacked)
    # What is assigned is evaluated first.
    new = [(name, of(each.record if isinstance(each, Unpacked) else each)) for name, each in _parts(made)]
    old, schema = of(last.record)
    if not isinstance(schema, Record) or schema.form not in _FORMS[made.form]:
        raise NotVectorizable(f"changes {schema}")
    fields = {name: project((old, schema), number) for number, name in enumerate(schema.names)}
    before = [old, *(each for each, _ in fields.values())] if made.form == WITHOUT else [old]
    if made.form == WITHOUT:
        _take_out(made, fields, schema)
    for name, (value, kind) in new:
        if name is not None:
            _assign(fields, name, (value, kind), schema)
            continue
        if not isinstance(kind, Record) or kind.form != DICT:
            raise NotVectorizable(f"updates a dict with {kind}")
        before.append(value)
        for number, each in enumerate(kind.names):
            _assign(fields, each, project((value, kind), number), schema)
    # The class stores attributes, and does no more.
    if schema.form == DATACLASS and getattr(schema.cls, "__dataclass_params__").frozen:  # noqa: B009 - not declared
        raise NotVectorizable(f"changes a {schema}, which is frozen")
    items, schemas = zip(*fields.values(), strict=True) if fields else ((), ())
    return after(before, Make(items)), Record(schemas, schema.form, tuple(fields), schema.cls)


def _parts(made: MakeRecord) -> list[tuple[str | None, Expression]]:
    return [] if made.form == WITHOUT else list(zip(made.names[:-1], made.items[:-1], strict=True))


def _assign(fields: dict[str, Typed], name: str, value: Typed, schema: Record) -> None:
    if (name not in fields and schema.form not in _GROWING) or (schema.form == ROW and name.startswith("_")):
        raise NotVectorizable(f"sets {name!r}, which {schema} has not")
    fields[name] = value


def _take_out(made: MakeRecord, fields: dict[str, Typed], schema: Record) -> None:
    """Take an item out; that it is there is required, unless there is a default."""
    name, *default = made.names
    if name not in fields and not default:
        raise NotVectorizable(f"takes {name!r} out of {schema}")
    fields.pop(str(name), None)


def _replaced(made: MakeRecord, of: _Of) -> Typed:
    first, *others = made.items
    assert isinstance(first, Unpacked)
    old, schema = found = of(first.record)
    wanted = DATACLASS if made.form == REPLACE else NAMED_TUPLE
    if not isinstance(schema, Record) or schema.form != wanted:
        raise NotVectorizable(f"replaces fields of {schema}")
    if wanted == NAMED_TUPLE and not is_inherited(schema.cls, REPLACE_TUPLE):
        raise NotVectorizable("replaces fields")
    new = {str(name): of(each) for name, each in zip(made.names[1:], others, strict=True)}
    if any(name not in schema.names for name in new):
        raise NotVectorizable(f"replaces a field that {schema} has not")
    items = [new.get(name) or project(found, index) for index, name in enumerate(schema.names)]
    result = Make(tuple(each for each, _ in items))
    return after([old], result), Record((each for _, each in items), schema.form, schema.names, schema.cls)


# ---- ``json.dumps`` of records whose fields are known: texts put together of the names, and of what the values are
# in JSON.


_AS_TEXT = (DATETIME, DATE, TIMEDELTA, DECIMAL)
"""Kinds of which ``default=str`` makes text."""


def options_of(names: abc.Sequence[str], given: abc.Sequence[Any]) -> JsonOptions:
    """Return the options that a call has by name; raise ``NotVectorizable`` for other options."""
    found: dict[str, Any] = {}
    for name, value in zip(names, given, strict=True):
        if name in ("ensure_ascii", "sort_keys") and isinstance(value, Constant) and type(value.value) is bool:
            found[name] = value.value
        elif name == "separators" and isinstance(value, Make) and len(value.items) == 2:
            separators = [each.value if isinstance(each, Constant) else None for each in value.items]
            if not all(type(each) is str for each in separators):
                raise NotVectorizable("calls json.dumps() with separators that are not constant")
            found |= dict(zip(("item", "key"), separators, strict=True))
        elif name == "default" and getattr(value, "kind", "") == "builtin" and value.name == "str":
            found["default_str"] = True
        else:
            raise NotVectorizable(f"calls json.dumps() with {name}")
    return JsonOptions(**found)


def call_of(value: Expression, options: JsonOptions) -> Expression:
    """Return the call as it is traced: displays of lists are tuples, whose items may be of several types."""
    return Invoke(DUMPS, (_as_tuples(value), Constant(options)))


def _as_tuples(value: Expression) -> Expression:
    match value:
        case Listed(items) | Make(items) if items:
            return Make(tuple(map(_as_tuples, items)))
        case MakeRecord():
            return replace(value, items=tuple(map(_as_tuples, value.items)))
    return value


def dumped(found: Typed, options: JsonOptions) -> Typed:
    """Return the text of a value as kernels compute it; raise ``NotVectorizable``."""
    parts: list[Expression] = []
    for each in _json_parts(found, options):
        last = parts[-1].value if parts and isinstance(parts[-1], Constant) else None
        if isinstance(each, Constant) and type(each.value) is type(last) is str:
            parts[-1] = Constant(last + each.value)
        else:
            parts.append(each)
    return Invoke("text", tuple(parts)), STR


def _json_parts(found: Typed, options: JsonOptions) -> list[Expression]:
    made, schema = found
    if isinstance(schema, Atomic):
        return [_single(made, schema, options)]
    names: list[str] | None = None
    if isinstance(schema, Record) and schema.form != NAMED_TUPLE:
        if schema.form != DICT or has_documents(schema):
            raise NotVectorizable(f"calls json.dumps() with {schema}")
        names = sorted(schema.names) if options.sort_keys else list(schema.names)
    count = len(schema)
    order = [schema.names.index(each) for each in names] if isinstance(schema, Record) and names else range(count)
    parts: list[Expression] = [Constant("[" if names is None else "{")]
    for place, number in enumerate(order):
        name = "" if names is None else f"{value_as_json(names[place], options)}{options.key}"
        parts += [Constant(f"{options.item if place else ''}{name}"), *_json_parts(project(found, number), options)]
    return [*parts, Constant("]" if names is None else "}")]


def _single(made: Expression, kind: Atomic, options: JsonOptions) -> Expression:
    if kind == NONE:
        return Constant("null")
    if isinstance(kind.required, ListOf) or kind == NUMBER:
        if has_documents(kind):
            raise NotVectorizable(f"calls json.dumps() with {kind}")
        return Rowwise("json value", (made, Constant(options)), STR)
    if kind.is_optional:
        there = kind.required
        text = _single(Rowwise("not none", (made,), there), there, options)
        return Choose(is_none(made), Constant("null"), text if there != INT else Invoke("str", (text,)), lazy=True)
    if kind == INT:
        return made
    if kind == BOOL:
        return Choose(made, Constant("true"), Constant("false"))
    if kind == FLOAT:
        return Rowwise("json float", (made,), STR)
    if kind in _AS_TEXT and options.default_str:
        made, kind = Rowwise("str", (made,), STR), STR
    if kind != STR:
        raise NotVectorizable(f"calls json.dumps() with a {kind}")
    return Rowwise("json ascii" if options.ensure_ascii else "json text", (made,), STR)
