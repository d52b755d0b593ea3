"""Calls of functions and methods in expressions, and comparisons, once the schemas of what they are given are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from funken.columnar.expressions import (
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    Invoke,
    Make,
    NotVectorizable,
    Rowwise,
    Text,
    Unpacked,
    number_as_float,
)
from funken.columnar.lists.calls import called_with, joined_lists, listed, of_nothing, over_list
from funken.columnar.typed import values as fields
from funken.columnar.typed.documents import loaded
from funken.columnar.typed.matches import matched, of_match
from funken.columnar.typed.operations import operated
from funken.columnar.typed.record_methods import method_of_record
from funken.columnar.typed.tables import field_looked_up, is_record_table, looked_up
from funken.columnar.typed.values import Typed, after, as_int, check_known, truth
from funken.columnar.writing.json_texts import dumped
from funken.columnar.writing.text_formats import INTEGER
from funken.expr.python.items import element_of
from funken.expr.python.objects import MATCH, is_pattern, is_table, table_kinds
from funken.expr.python.table import DUMPS, LOADS, TABLE
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DICT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    ROW,
    STR,
    Atomic,
    ListOf,
    Record,
    Tuple,
    optional,
)

_Of = Callable[[Expression], Typed]
_TruthOf = Callable[[Expression], Expression]
_Compared = Callable[[str, Typed, Typed], Expression]


def called(name: str, given: tuple[Expression, ...], of: _Of, truth_of: _TruthOf, compared: _Compared) -> Typed:
    """Return a call as kernels compute it, and the schema of its results; raise ``NotVectorizable``."""
    row = TABLE.find(name)
    if row is not None and row.items and name != "tuple":
        return _over_items(name, given, of, truth_of, compared)
    if name == "display":
        return _display(given, of)
    if name == LOADS:
        return loaded([of(each) for each in given])
    if name == DUMPS:
        return dumped(of(given[0]), given[1].value)  # type: ignore[attr-defined]
    if name == "bool" and len(given) == 1:
        return truth_of(given[0]), BOOL
    if name.startswith("."):
        return _method(name[1:], given, of)
    found = [of(each) for each in given]
    if name in (INTEGER, "rest"):
        return _integer(found[0]) if name == INTEGER else _rest(found)
    if len(found) == 1 and not isinstance(found[0][1], Atomic) and name in ("tuple", "len"):
        return _of_record(name, found[0])
    return called_with(name, [number_as_float(*each) for each in found] if name == "float" else found)


def _of_record(name: str, found: Typed) -> Typed:
    """Return a record as a tuple, or how many fields it has."""
    made, schema = found
    assert not isinstance(schema, Atomic)
    if name == "tuple" and fields.is_tuple(schema):
        items = fields.spread(found)
        return after([made], Make(tuple(each for each, _ in items))), Tuple(schema for _, schema in items)
    if name == "tuple" or (isinstance(schema, Record) and schema.form not in (DICT, NAMED_TUPLE, ROW)):
        raise NotVectorizable(f"calls {name}() with {schema}")
    return after([made], Constant(len(schema))), INT


def _integer(found: Typed) -> Typed:
    """Return a number as ``%d`` writes it."""
    made, schema = as_int(found)
    if schema == FLOAT:
        return Rowwise("int", (made,), INT), INT
    if schema != INT:
        raise NotVectorizable(f"formats {schema} with %d")
    return made, INT


def _rest(found: list[Typed]) -> Typed:
    """Return the list that is left of a list when its first, or last, items are taken."""
    (made, schema), (start, _), (stop, _) = found
    if element_of(schema) is None or not isinstance(schema, Atomic):
        raise NotVectorizable(f"unpacks {schema} with *")
    return Rowwise("slice", (made, start, stop, Constant(None)), schema), schema


def _display(items: tuple[Expression, ...], of: _Of) -> Typed:
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


def _over_items(name: str, given: tuple[Expression, ...], of: _Of, truth_of: _TruthOf, compared: _Compared) -> Typed:
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
            return Choose(compared(op, (other, STR), (one, STR)), other, one)
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
    return reduce(lambda one, other: Binary("+", one, other), [each for each, _ in numbers]), INT


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
    return after([separator], Text(tuple(texts))), STR


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


# ---- comparisons


def compared(op: str, left: Typed, right: Typed) -> Expression:
    """Return a comparison as kernels compute it."""
    left, right = number_as_float(*left), number_as_float(*right)
    (one, left_schema), (other, right_schema) = left, right
    check_known(left_schema)
    check_known(right_schema)
    refused = NotVectorizable(f"compares {left_schema} {op} {right_schema}")
    if not isinstance(left_schema, Atomic) or not isinstance(right_schema, Atomic):
        found = fields.compared_tuples(op, left, right, compared)
        if found is None:
            raise refused
        return found
    made = operated(op, [left, right], lambda one, other: Compare(op, one, other))
    if made is not None:
        return made[0]
    arrays = left_schema in ARRAYS and right_schema in ARRAYS
    nothing = NONE in (left_schema, right_schema) and not (left_schema.is_optional or right_schema.is_optional)
    if op in ("==", "!=") and (arrays or nothing):  # of two types
        return after([one, other], Constant(op == "!="))
    raise refused


__all__ = ["called", "compared"]
