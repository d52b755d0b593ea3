"""Of what shape an expression's results are; refuses what has no kernel with exactly Python's results.

Left out on purpose, because arrays differ from Python there: ``//`` and ``%`` of floats (rounding), arithmetic with bools,
text of floats, upper and lower case (tables of Unicode versions), and results whose type depends on the record.
"""

from __future__ import annotations

from funken.vector.expressions import (
    BOOL,
    FLOAT,
    INT,
    STR,
    Binary,
    Choose,
    Compare,
    Constant,
    Contains,
    Expression,
    Input,
    Invoke,
    Item,
    Make,
    NotVectorizable,
    Sequence,
    Shape,
    Text,
    Unary,
    shape_of_value,
    shown,
)

_NUMBERS = {INT, FLOAT}


def shape_of(expression: Expression, *arguments: Shape) -> Shape:
    """Return the shape of an expression's results for arguments of these shapes; raise ``NotVectorizable``.

    >>> from funken.vector.tracing import trace
    >>> shape_of(trace(lambda pair: (pair[1] / 2, "x" in pair[0]), None, 1).result, ("str", "int"))
    ('float', 'bool')
    """
    match expression:
        case Input(argument, path):
            if not 0 <= argument < len(arguments):
                raise NotVectorizable("uses self")
            shape = arguments[argument]
            for index in path:
                shape = _item(shape, index)
            return shape
        case Constant(value):
            shape_of_constant = shape_of_value(value)
            assert shape_of_constant is not None
            return shape_of_constant
        case Make(items):
            if not items:
                raise NotVectorizable("makes an empty tuple")
            return tuple(shape_of(item, *arguments) for item in items)
        case Item(record, index, of):
            shape = shape_of(record, *arguments)
            if of is not None and (isinstance(shape, str) or len(shape) != of):
                raise NotVectorizable(f"unpacks {of} values from {shown(shape)}")
            return _item(shape, index)
        case Sequence(before, result):
            for each in before:
                shape_of(each, *arguments)
            return shape_of(result, *arguments)
        case Binary(op, left, right):
            return _binary(op, shape_of(left, *arguments), shape_of(right, *arguments))
        case Compare(op, left, right):
            return _compared(op, shape_of(left, *arguments), shape_of(right, *arguments))
        case Unary(op, operand):
            return _unary(op, shape_of(operand, *arguments))
        case Choose(condition, then, otherwise):
            _truth(shape_of(condition, *arguments))
            one, other = shape_of(then, *arguments), shape_of(otherwise, *arguments)
            if one != other:
                raise NotVectorizable(f"gives sometimes {shown(one)} and sometimes {shown(other)}")
            return one
        case Contains(needle, container):
            return _contained(needle, container, arguments)
        case Invoke(name, given):
            return _invoked(name, [shape_of(each, *arguments) for each in given])
        case Text(parts):
            for part in parts:
                kind = shape_of(part, *arguments)
                if kind not in (INT, STR):
                    raise NotVectorizable(f"makes text of {shown(kind)}")
            return STR
        case _:
            raise NotVectorizable(f"has no kernel for {type(expression).__name__}")


def _item(shape: Shape, index: int) -> Shape:
    if isinstance(shape, str):
        raise NotVectorizable(f"takes an item of {shown(shape)}")
    if not -len(shape) <= index < len(shape):
        raise NotVectorizable(f"takes item {index} of {shown(shape)}")
    return shape[index]


def _truth(shape: Shape) -> None:
    if not isinstance(shape, str):
        raise NotVectorizable("asks whether a tuple is true")


def _binary(op: str, left: Shape, right: Shape) -> Shape:
    if left in _NUMBERS and right in _NUMBERS:
        if left == right == INT:
            return FLOAT if op == "/" else INT
        if op in ("+", "-", "*", "/"):
            return FLOAT
    elif (left == right == STR and op == "+") or (left == right == BOOL and op in ("&", "|", "^")):
        return left
    raise NotVectorizable(f"computes {shown(left)} {op} {shown(right)}")


def _compared(op: str, left: Shape, right: Shape) -> Shape:
    numbers = left in _NUMBERS and right in _NUMBERS
    if numbers or left == right == STR or (left == right == BOOL and op in ("==", "!=")):
        return BOOL
    raise NotVectorizable(f"compares {shown(left)} {op} {shown(right)}")


def _unary(op: str, shape: Shape) -> Shape:
    if op in ("not", "bool"):
        _truth(shape)
        return BOOL
    if shape == INT or (shape == FLOAT and op == "-"):
        return shape
    raise NotVectorizable(f"computes {op} of {shown(shape)}")


def _contained(needle: Expression, container: Expression, arguments: tuple[Shape, ...]) -> Shape:
    kind = shape_of(needle, *arguments)
    if isinstance(container, Make):
        kinds = {shape_of(item, *arguments) for item in container.items}
        if all(isinstance(item, Constant) for item in container.items) and kinds == {kind} and kind in (INT, STR):
            return BOOL
    elif kind == STR and isinstance(needle, Constant) and shape_of(container, *arguments) == STR:
        return BOOL
    raise NotVectorizable("tests with 'in' something else than constants")


def _invoked(name: str, given: list[Shape]) -> Shape:
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
    raise NotVectorizable(f"calls {name}() with {', '.join(map(shown, given))}")
