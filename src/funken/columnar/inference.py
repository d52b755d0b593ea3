"""The schema of an expression's results; rejects what has no kernel with exactly Python's results.

Left out on purpose, because arrays differ from Python there: ``//`` and ``%`` of floats (rounding), arithmetic with bools,
text of floats, upper and lower case (tables of Unicode versions), and results whose type depends on the record.
"""

from __future__ import annotations

from funken.columnar.expressions import (
    BOOL,
    FLOAT,
    INT,
    STR,
    Argument,
    Binary,
    Choose,
    Compare,
    Constant,
    Contains,
    Expression,
    GetItem,
    Invoke,
    Make,
    NotVectorizable,
    RecordSchema,
    Sequence,
    Text,
    Unary,
    schema_of_value,
    schema_repr,
)

_NUMBERS = {INT, FLOAT}


def schema_of(expression: Expression, *arguments: RecordSchema) -> RecordSchema:
    """Return the shape of an expression's results for arguments of these shapes; raise ``NotVectorizable``.

    >>> from funken.columnar.tracing import trace
    >>> schema_of(trace(lambda pair: (pair[1] / 2, "x" in pair[0]), None, 1).result, ("str", "int"))
    ('float', 'bool')
    """
    match expression:
        case Argument(argument, path):
            if not 0 <= argument < len(arguments):
                raise NotVectorizable("uses self")
            schema = arguments[argument]
            for index in path:
                schema = _item(schema, index)
            return schema
        case Constant(value):
            shape_of_constant = schema_of_value(value)
            assert shape_of_constant is not None
            return shape_of_constant
        case Make(items):
            if not items:
                raise NotVectorizable("makes an empty tuple")
            return tuple(schema_of(item, *arguments) for item in items)
        case GetItem(record, index, of):
            schema = schema_of(record, *arguments)
            if of is not None and (isinstance(schema, str) or len(schema) != of):
                raise NotVectorizable(f"unpacks {of} values from {schema_repr(schema)}")
            return _item(schema, index)
        case Sequence(before, result):
            for each in before:
                schema_of(each, *arguments)
            return schema_of(result, *arguments)
        case Binary(op, left, right):
            return _binary(op, schema_of(left, *arguments), schema_of(right, *arguments))
        case Compare(op, left, right):
            return _compared(op, schema_of(left, *arguments), schema_of(right, *arguments))
        case Unary(op, operand):
            return _unary(op, schema_of(operand, *arguments))
        case Choose(condition, then, otherwise):
            _truth(schema_of(condition, *arguments))
            one, other = schema_of(then, *arguments), schema_of(otherwise, *arguments)
            if one != other:
                raise NotVectorizable(f"gives sometimes {schema_repr(one)} and sometimes {schema_repr(other)}")
            return one
        case Contains(needle, container):
            return _contained(needle, container, arguments)
        case Invoke(name, given):
            return _invoked(name, [schema_of(each, *arguments) for each in given])
        case Text(parts):
            for part in parts:
                kind = schema_of(part, *arguments)
                if kind not in (INT, STR):
                    raise NotVectorizable(f"makes text of {schema_repr(kind)}")
            return STR
        case _:
            raise NotVectorizable(f"has no kernel for {type(expression).__name__}")


def _item(schema: RecordSchema, index: int) -> RecordSchema:
    if isinstance(schema, str):
        raise NotVectorizable(f"takes an item of {schema_repr(schema)}")
    if not -len(schema) <= index < len(schema):
        raise NotVectorizable(f"takes item {index} of {schema_repr(schema)}")
    return schema[index]


def _truth(schema: RecordSchema) -> None:
    if not isinstance(schema, str):
        raise NotVectorizable("asks whether a tuple is true")


def _binary(op: str, left: RecordSchema, right: RecordSchema) -> RecordSchema:
    if left in _NUMBERS and right in _NUMBERS:
        if left == right == INT:
            return FLOAT if op == "/" else INT
        if op in ("+", "-", "*", "/"):
            return FLOAT
    elif (left == right == STR and op == "+") or (left == right == BOOL and op in ("&", "|", "^")):
        return left
    raise NotVectorizable(f"computes {schema_repr(left)} {op} {schema_repr(right)}")


def _compared(op: str, left: RecordSchema, right: RecordSchema) -> RecordSchema:
    numbers = left in _NUMBERS and right in _NUMBERS
    if numbers or left == right == STR or (left == right == BOOL and op in ("==", "!=")):
        return BOOL
    raise NotVectorizable(f"compares {schema_repr(left)} {op} {schema_repr(right)}")


def _unary(op: str, schema: RecordSchema) -> RecordSchema:
    if op in ("not", "bool"):
        _truth(schema)
        return BOOL
    if schema == INT or (schema == FLOAT and op == "-"):
        return schema
    raise NotVectorizable(f"computes {op} of {schema_repr(schema)}")


def _contained(needle: Expression, container: Expression, arguments: tuple[RecordSchema, ...]) -> RecordSchema:
    kind = schema_of(needle, *arguments)
    if isinstance(container, Make):
        kinds = {schema_of(item, *arguments) for item in container.items}
        if all(isinstance(item, Constant) for item in container.items) and kinds == {kind} and kind in (INT, STR):
            return BOOL
    elif kind == STR and isinstance(needle, Constant) and schema_of(container, *arguments) == STR:
        return BOOL
    raise NotVectorizable("tests with 'in' something else than constants")


def _invoked(name: str, given: list[RecordSchema]) -> RecordSchema:
    kinds = set(given)
    match name:
        case "startswith" | "endswith" if given == [STR, STR]:
            return BOOL
        case "len" if given == [STR]:
            return INT
        case "str" if given in ([INT], [STR]):
            return STR
        case "float" if given in ([INT], [FLOAT]):
            return FLOAT
        case "bool" if isinstance(given[0], str):
            return BOOL
        case "abs" | "min" | "max" if kinds in ({INT}, {FLOAT}):
            return given[0]
    raise NotVectorizable(f"calls {name}() with {', '.join(map(schema_repr, given))}")
