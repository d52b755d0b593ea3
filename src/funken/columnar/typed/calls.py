"""Calls of functions and methods in expressions, and comparisons, for arguments of known types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Protocol

from funken.columnar.block import Block
from funken.columnar.expressions import (
    COMPARISONS,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Make,
    MakeRecord,
    NotVectorizable,
    Rowwise,
    Unpacked,
    children,
    number_as_float,
)
from funken.columnar.records import is_inherited
from funken.columnar.typed import values as fields
from funken.columnar.typed.operations import (
    INTEGER,
    Typed,
    as_int,
    called_with,
    joined_lists,
    listed,
    matched,
    of_match,
    of_nothing,
    operated,
    over_list,
    rewriter,
)
from funken.columnar.typed.values import after, dumped, kind_of_constant, truth
from funken.dataclass import dataclass
from funken.expr.python.table import DUMPS, LOADS, MATCH, TABLE, element_of, is_pattern, is_table, table_kinds
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DICT,
    DOCUMENT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    OF_CLASSES,
    ROW,
    STR,
    Atomic,
    ListOf,
    Plain,
    Record,
    Tuple,
    Type,
    atomic_fields,
    optional,
)

# ---- Methods of dicts, named tuples and rows, once their fields are known.


_Of = Callable[[Expression], Typed]


def method_of_record(name: str, found: Typed, given: tuple[Expression, ...], of: _Of) -> Typed:
    """Return a call of a method of a record with named fields; raise ``NotVectorizable``."""
    schema = found[1]
    assert isinstance(schema, Record)
    if name == "get" and schema.form in (DICT, DOCUMENT) and len(given) in (1, 2):
        key = given[0].value if isinstance(given[0], Constant) else None
        default: Typed = of(given[1]) if len(given) == 2 else (Constant(None), NONE)
        if type(key) is str:
            position = schema.position(key)
            if position is None and schema.form == DOCUMENT:
                raise NotVectorizable(f"calls get({key!r}), which some documents may have")
            if position is None:
                return after([found[0]], default[0]), default[1]
            made, kind = fields.project(found, position)
            return after([found[0], default[0]], made), kind
    if name == "copy" and not given and schema.form == DICT:
        return found
    if name == "_asdict" and not given and is_inherited(schema.cls or dict, name):
        return fields.as_dict(found, NAMED_TUPLE)
    if name == "as_dict" and not given:
        return fields.as_dict(found, ROW)
    raise NotVectorizable(f"calls the method {name}() of {schema}")


# ---- Tables whose values are records: dicts of texts or ints to tuples, or to dicts with the same names, all of
# them alike.
#
# To look something up in such a table is to look up each field that is used, in a table of that field.


_MOST_ITEMS = 1000


def table_schema(table: Any) -> Type | None:
    """Return the schema of the records in a table, small enough to be compared once a block; ``None`` if it is no such table.

    >>> table_schema({"a": ("x", 1), "b": ("y", 2)}), table_schema({"a": {"n": 1.5}}), table_schema({"a": (1,), "b": (1, 2)})
    ((str, int), {n: float}, None)
    """
    if type(table) is not dict or not 0 < len(table) <= _MOST_ITEMS:
        return None
    values, keys = list(table.values()), set(map(type, table))
    first = values[0]
    if len(keys) > 1 or not keys <= {int, str} or {type(each) for each in values} not in ({tuple}, {dict}) or not first:
        return None
    if type(first) is tuple:
        rows: list[Any] = values if {len(each) for each in values} == {len(first)} else []
    else:
        alike = {tuple(each) for each in values} == {tuple(first)} and all(type(name) is str for name in first)
        rows = [tuple(each.values()) for each in values] if alike else []
    types = [set(map(type, field)) for field in zip(*rows, strict=True)]
    if not rows or any(len(each) > 1 or not each <= OF_CLASSES.keys() for each in types):
        return None
    schema = Tuple(OF_CLASSES[each.pop()] for each in types)
    return schema if type(first) is tuple else Record(schema, DICT, tuple(first))


def is_record_table(found: Any) -> bool:
    """Return True if an expression is such a table."""
    return isinstance(found, Constant) and table_schema(found.value) is not None


def looked_up(table: Any, key: Typed, default: Typed | None = None) -> Typed:
    """Return the record of a key; where there is none the default, of the same schema, or without one an error."""
    schema = table_schema(table)
    assert schema is not None
    if default is not None and default[1] != schema:
        raise NotVectorizable(f"gives sometimes {schema} and sometimes {default[1]}")
    if key[1] not in (INT, STR):
        raise NotVectorizable(f"looks up {key[1]}")
    fields = []
    for number, (_, kind) in enumerate(atomic_fields(schema)):
        of_field = Constant({name: _values(record)[number] for name, record in table.items()})
        if default is None:
            fields.append(Rowwise("item", (of_field, key[0]), kind))
            continue
        made = default[0].items[number] if isinstance(default[0], Make) else None
        if not isinstance(made, Constant):
            raise NotVectorizable("looks up a record with a default that is computed")
        fields.append(Rowwise("get", (of_field, key[0], made), kind))
    # Without a default all fields raise for the same records: whichever is used shows it.
    result = Make(tuple(fields))
    return (result if default is not None else after([fields[0]], result)), schema


def field_looked_up(owner: Expression, given: tuple[Expression, ...], of: _Of) -> Typed | None:
    """Return ``table.get(key, {}).get(name, default)``; ``None`` for other expressions."""
    match owner:
        case Invoke(".get", (Constant(table), key, MakeRecord(form, (), ()))) if form == DICT:
            schema = table_schema(table)
        case _:
            return None
    name = given[0].value if given and isinstance(given[0], Constant) else None
    if not isinstance(schema, Record) or type(name) is not str or len(given) != 2:
        return None
    made, kind = of(key)
    default, of_default = of(given[1])
    position = schema.position(name)
    if position is None:
        return after([made], default), of_default
    of_field = schema[position]
    if of_default != of_field or kind not in (INT, STR) or not isinstance(of_field, Atomic):
        raise NotVectorizable(f"gives sometimes {of_field} and sometimes {of_default}")
    values = Constant({each: record[name] for each, record in table.items()})
    return Rowwise("get", (values, made, default), of_field), of_field


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(record.values()) if isinstance(record, dict) else record


# ---- Texts of which some are known when a job is planned: what they hold can be looked at, before ``json.loads``
# parses them.


class DocumentParser(Protocol):
    """Parses texts that hold documents; its pickled form is all that travels."""

    @property
    def schema(self) -> Type:
        """The schema of the documents, as far as some of them show it."""
        ...

    def parse(self, texts: Sequence[str], wanted: tuple[int, ...] | None) -> Block | None:
        """Return documents as columns of the ``wanted`` fields; ``None``: one of them is of another form."""
        ...


class SampledText(Plain):
    """The type of texts, which knows how to look at some of them; ``documents`` raises ``NotVectorizable``.

    >>> SampledText(lambda: None) == STR, STR == SampledText(lambda: None), SampledText(lambda: None) in {STR}
    (True, True, True)
    """

    __slots__ = ("documents",)

    def __init__(self, documents: Callable[[], DocumentParser]) -> None:
        super().__init__(STR.name, STR.constant)
        self.documents = documents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.name == STR.name

    def __hash__(self) -> int:
        return hash(STR)

    def __reduce__(self) -> tuple[Any, ...]:
        return _text, ()  # what the texts hold is asked for when a job is planned only


def _text() -> Plain:
    return STR


@dataclass(frozen=True)
class Parsed(Expression):
    """Documents in texts; ``wanted`` are the fields of their schema to parse (``None``: all)."""

    raises = True

    text: Expression
    parser: DocumentParser
    wanted: tuple[int, ...] | None = None


# ---- ``json.loads`` of texts of which some are known: documents of a schema, of which only the fields that are
# used are made.


def loaded(given: Sequence[tuple[Expression, Type]]) -> tuple[Expression, Type]:
    """Return the documents in texts; raise ``NotVectorizable`` if nothing is known of them."""
    if len(given) != 1 or not isinstance(given[0][1], SampledText):
        raise NotVectorizable("calls json.loads() with text that does not come from a source as it is")
    parser = given[0][1].documents()
    return Parsed(given[0][0], parser), parser.schema


def with_wanted(expressions: Sequence[Expression]) -> list[Expression]:
    """Return expressions whose documents have the fields only that are taken out of them, in any of these.

    Equal parts of them have to be one object.
    """
    wanted: dict[int, set[int]] = {}
    seen: set[int] = set()

    def look(expression: Expression, path: tuple[int, ...]) -> None:
        if isinstance(expression, GetItem) and isinstance(expression.index, int):
            look(expression.record, (expression.index, *path))
        elif isinstance(expression, Parsed):
            used = wanted.setdefault(id(expression), set())
            if path:
                leaves = enumerate(atomic_fields(expression.parser.schema))
                used.update(number for number, (leaf, _) in leaves if leaf[: len(path)] == path)
            look(expression.text, ())
        elif id(expression) not in seen:
            seen.add(id(expression))
            for each in children(expression):
                look(each, ())

    for each in expressions:
        look(each, ())
    if not wanted:
        return list(expressions)

    def parsed(expression: Expression) -> Expression | None:
        if not isinstance(expression, Parsed):
            return None
        return replace(expression, wanted=tuple(sorted(wanted[id(expression)])))

    return list(map(rewriter(parsed), expressions))


_TruthOf = Callable[[Expression], Expression]


def called(name: str, given: tuple[Expression, ...], of: _Of, truth_of: _TruthOf) -> Typed:
    """Return an operation as kernels compute it, and the schema of its results; raise ``NotVectorizable``."""
    rule = _RULES.get(name)
    if rule is not None:
        return rule(name, given, of, truth_of)
    if name.startswith("."):
        return _method(name[1:], given, of)
    if TABLE[name].items:
        return _over_items(name, given, of, truth_of)
    return called_with(name, [of(each) for each in given])


def _arithmetic(op: str, given: tuple[Expression, ...], of: _Of, _: _TruthOf) -> Typed:
    left, right = map(of, given)
    if op == "/" or (op in ("+", "-", "*") and FLOAT in (left[1], right[1])):
        left, right = number_as_float(*left), number_as_float(*right)
    left_schema, right_schema = left[1], right[1]
    if op == "+" and isinstance(left_schema, ListOf) and isinstance(right_schema, ListOf):
        return joined_lists(left, right)
    if not isinstance(left_schema, Atomic) or not isinstance(right_schema, Atomic):
        return fields.combined(op, left, right)
    if op == "**" and right == (Constant(2), INT) and as_int(left)[1] == INT:
        op, right = "*", left
    found = operated(op, [left, right])
    if found is None:
        raise NotVectorizable(f"computes {left_schema} {op} {right_schema}")
    return found


def _signed(name: str, given: tuple[Expression, ...], of: _Of, _: _TruthOf) -> Typed:
    operand = of(given[0])
    found = operated(name, [operand])
    if found is None:
        raise NotVectorizable(f"computes {'-' if name == 'negative' else '~'} of {operand[1]}")
    return found


def _truth(name: str, given: tuple[Expression, ...], _: _Of, truth_of: _TruthOf) -> Typed:
    if len(given) != 1:
        raise NotVectorizable(f"calls {name}() with {len(given)} arguments")
    found = truth_of(given[0])
    return (found if name == "bool" else fields.negated(found)), BOOL


def _texts(_: str, parts: tuple[Expression, ...], of: _Of, truth_of: _TruthOf) -> Typed:
    typed = [(of(part), part) for part in parts]
    made = (each if kind in (INT, STR) else called("str", (part,), of, truth_of)[0] for (each, kind), part in typed)
    return Invoke("text", tuple(made)), STR


def _sized(name: str, given: tuple[Expression, ...], of: _Of, _: _TruthOf) -> Typed:
    found = [of(each) for each in given]
    return (
        _of_record(name, found[0])
        if len(found) == 1 and not isinstance(found[0][1], Atomic)
        else called_with(name, found)
    )


def _of_record(name: str, found: Typed) -> Typed:
    """Return a record as a tuple, or the number of its fields."""
    made, schema = found
    assert not isinstance(schema, Atomic)
    if name == "tuple" and fields.is_tuple(schema):
        items = fields.spread(found)
        return after([made], Make(tuple(each for each, _ in items))), Tuple(schema for _, schema in items)
    if name == "tuple" or (isinstance(schema, Record) and schema.form not in (DICT, NAMED_TUPLE, ROW)):
        raise NotVectorizable(f"calls {name}() with {schema}")
    return after([made], Constant(len(schema))), INT


def _integer(_: str, given: tuple[Expression, ...], of: _Of, __: _TruthOf) -> Typed:
    """Return a number as ``%d`` writes it."""
    made, schema = as_int(of(given[0]))
    if schema == FLOAT:
        return Rowwise("int", (made,), INT), INT
    if schema != INT:
        raise NotVectorizable(f"formats {schema} with %d")
    return made, INT


def _rest(name: str, given: tuple[Expression, ...], of: _Of, truth_of: _TruthOf) -> Typed:
    """Return the list that is left of a list when its first, or last, items are taken."""
    (made, schema), (start, _), (stop, _) = map(of, given)
    if element_of(schema) is None or not isinstance(schema, Atomic):
        raise NotVectorizable(f"unpacks {schema} with *")
    return Rowwise("slice", (made, start, stop, Constant(None)), schema), schema


def _display(_: str, items: tuple[Expression, ...], of: _Of, __: _TruthOf) -> Typed:
    """Return the display of a list with other lists in it."""
    parts: list[Typed] = []
    single: list[Typed] = []
    for item in items:
        found = of(item.record) if isinstance(item, Unpacked) else of(item)
        if isinstance(item, Unpacked) and isinstance(found[1], ListOf):
            parts += [listed(single), found] if single else [found]
            single = []
        else:
            single += fields.spread(found) if isinstance(item, Unpacked) else [found]
    return reduce(joined_lists, [*parts, listed(single)] if single else parts)


# ---- several values


def _over_items(name: str, given: tuple[Expression, ...], of: _Of, truth_of: _TruthOf) -> Typed:
    shown = given[0].items if len(given) == 1 and isinstance(given[0], Make) else None
    if shown is not None and not any(isinstance(each, Unpacked) for each in shown):
        if not shown:
            return of_nothing(name)
        found = [of(each) for each in shown]
        if name == "list":
            return listed(found)
        if name in ("any", "all"):
            return _some(name == "any", [truth_of(each) for each in shown], [made for made, _ in found])
    else:
        found = [of(each) for each in given]
        if element_of(found[0][1]) is not None and (len(given) == 1 or name == "sum"):
            return over_list(name, found, truth)
        if len(given) == 1:
            found = fields.spread(found[0])
        elif name not in ("min", "max"):
            raise NotVectorizable(f"calls {name}() with {len(given)} arguments")
        if name in ("any", "all"):
            raise NotVectorizable(f"calls {name}() of a tuple that is no display")
    if name == "sum":
        return _sum(found)
    if name in ("sorted", "list"):
        raise NotVectorizable("makes a list")
    kinds = {schema for _, schema in found}
    if len(found) < 2 or len(kinds) != 1 or not kinds <= {INT, FLOAT, STR}:
        raise NotVectorizable(f"calls {name}() with {', '.join(str(schema) for _, schema in found)}")
    (kind,) = kinds
    op = "<" if name == "min" else ">"

    def better(one: Expression, other: Expression) -> Expression:
        if kind == STR:
            return Choose(fields.compared(op, (other, STR), (one, STR)), other, one)
        return Invoke(name, (one, other))

    return reduce(better, [each for each, _ in found]), kind


def _some(any_of: bool, truths: list[Expression], items: list[Expression]) -> Typed:
    # All items of the display are evaluated before the call.
    found: Expression = Constant(not any_of)
    for each in reversed(truths):
        found = Choose(each, Constant(True), found) if any_of else Choose(each, found, Constant(False))
    return after(items, found), BOOL


def _sum(found: list[Typed]) -> Typed:
    numbers = [as_int(each) for each in found]
    if any(schema != INT for _, schema in numbers):
        raise NotVectorizable("calls sum() with other numbers than ints, which Python adds in its own way")
    return reduce(lambda one, other: Invoke("+", (one, other)), [each for each, _ in numbers]), INT


# ---- methods


def _method(name: str, given: tuple[Expression, ...], of: _Of) -> Typed:
    owner = given[0]
    if isinstance(owner, Constant) and is_table(owner.value) and name == "get":
        return _looked_up(owner, given[1:], of)
    if isinstance(owner, Constant) and is_pattern(owner.value):
        return matched(name, owner, [of(each) for each in given[1:]])
    of_field = field_looked_up(owner, given[1:], of) if name == "get" else None
    if of_field is not None:
        return of_field
    if name == "get" and is_record_table(owner) and len(given) == 3:
        return looked_up(owner.value, of(given[1]), of(given[2]))  # type: ignore[attr-defined]
    found = of(owner)
    if isinstance(found[1], Record):
        return method_of_record(name, found, given[1:], of)
    if found[1] == MATCH and name in ("group", "groups", "groupdict"):
        return of_match(name, found[0], given[1:])
    if name in ("startswith", "endswith") and len(given) == 2 and isinstance(given[1], Make):
        tests = [_method(name, (owner, each), of)[0] for each in given[1].items]
        return _some(True, tests, [])
    if name == "join" and len(given) == 2 and found[1] == STR and isinstance(given[1], Make):
        return _joined(found[0], [of(each) for each in given[1].items])
    arguments = [found, *(of(each) for each in given[1:])]
    made, kinds = tuple(each for each, _ in arguments), tuple(schema for _, schema in arguments)
    if name == "partition" and kinds == (STR, STR):
        parts = tuple(Rowwise(f"str.partition.{number}", made, STR) for number in range(3))
        return Make(parts), Tuple((STR, STR, STR))
    called = operated(f"{kinds[0]}.{name}", arguments)
    if called is None:
        told = ", ".join(map(str, kinds[1:]))
        raise NotVectorizable(f"calls the method {name}({told}) of {kinds[0]}")
    return called


def _joined(separator: Expression, parts: list[Typed]) -> Typed:
    if any(schema != STR for _, schema in parts):
        raise NotVectorizable("joins something else than text")
    texts: list[Expression] = []
    for each, _ in parts:
        texts += [separator, each] if texts else [each]
    return after([separator], Invoke("text", tuple(texts))), STR


def _looked_up(table: Constant, given: tuple[Expression, ...], of: _Of) -> Typed:
    kinds = table_kinds(table.value)
    assert kinds is not None
    if len(given) not in (1, 2):
        raise NotVectorizable("calls get() in another way")
    key = of(given[0])
    default: Typed = of(given[1]) if len(given) == 2 else (Constant(None), NONE)
    if not isinstance(key[1], Atomic) or not isinstance(default[1], Atomic):
        raise NotVectorizable("looks up a record")
    if default[1] not in (NONE, kinds[1]):
        raise NotVectorizable(f"gives sometimes {kinds[1]} and sometimes {default[1]}")
    kind = optional(kinds[1]) if default[1] == NONE else kinds[1]
    return Rowwise("get", (table, key[0], default[0]), kind), kind


# ---- containers


_MOST_COMPARED = 16
"""A value is compared with so many constants at most, one after the other."""


def _contained(needle: Expression, container: Expression, of: _Of) -> Expression:
    """Return a test of a value for presence in a container."""
    made, kind = of(needle)
    items: list[Expression] | None = None
    if isinstance(container, Make):
        items = [of(item)[0] for item in container.items]
    elif isinstance(container, Constant) and type(container.value) in (list, set, frozenset):
        items = [Constant(value) for value in container.value]
    elif isinstance(container, Constant) and is_table(container.value) and kind in ARRAYS:
        return Rowwise("in", (made, container), BOOL)
    if items is not None:
        kinds = {kind_of_constant(item.value) for item in items if isinstance(item, Constant)}
        constant = all(isinstance(item, Constant) for item in items)
        if not items:
            return after([made], Constant(False))
        if constant and kinds == {kind} and kind in (INT, STR) and len(items) <= _MOST_COMPARED:
            return Invoke("in", (made, Make(tuple(items))))
        if constant and kind in (INT, STR, optional(INT), optional(STR)) and kinds <= {*ARRAYS, NONE}:
            values = frozenset(item.value for item in items if isinstance(item, Constant))
            return Rowwise("in", (made, Constant(values)), BOOL)
        raise NotVectorizable("tests with 'in' something else than constants")
    if is_record_table(container) and kind in (INT, STR):
        return Rowwise("in", (made, Constant(frozenset(container.value))), BOOL)  # type: ignore[attr-defined]
    text, schema = of(container)
    if kind == schema == STR and isinstance(made, Constant):
        return Invoke("in", (made, text))
    found = operated("in", [(made, kind), (text, schema)])
    if found is not None:
        return found[0]
    if isinstance(made, Constant) and not isinstance(schema, Atomic):
        return after([text], Constant(fields.has_key(schema, made.value)))
    raise NotVectorizable("tests with 'in' something else than constants")


_RULES: dict[str, Callable[[str, tuple[Expression, ...], _Of, _TruthOf], Typed]] = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"), _arithmetic),
    **dict.fromkeys(COMPARISONS, lambda op, given, of, _: (fields.compared(op, *map(of, given)), BOOL)),
    **dict.fromkeys(("negative", "inverted"), _signed),
    **dict.fromkeys(("not", "bool"), _truth),
    **dict.fromkeys(("tuple", "len"), _sized),
    "attribute": lambda _, given, of, __: fields.attribute(of(given[0]), given[1].value),  # type: ignore[attr-defined]
    "display": _display,
    "float": lambda name, given, of, _: called_with(name, [number_as_float(*of(each)) for each in given]),
    "in": lambda _, given, of, __: (_contained(given[0], given[1], of), BOOL),
    "rest": _rest,
    "slice": lambda _, given, of, __: fields.cut(of(given[0]), [of(each) for each in given[1:]]),
    "text": _texts,
    DUMPS: lambda _, given, of, __: dumped(of(given[0]), given[1].value),  # type: ignore[attr-defined]
    INTEGER: _integer,
    LOADS: lambda _, given, of, __: loaded([of(each) for each in given]),
}
"""The type rules of operations that depend on more than the types of their arguments; others have that of their row."""
