"""States that begin with an int and go on with floats, as ``total = self.total.value() or 0`` does: the 0 is as good as 0.0.

That is so if the state is only added to, compared, and the like, with floats: nobody sees then which of both it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from funken.columnar.expressions import (
    Argument,
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    Invoke,
    Make,
    NotVectorizable,
    Rowwise,
    Unary,
    children,
)
from funken.columnar.expressions import Sequence as After
from funken.expr.types import FLOAT, INT, Atomic, Tuple, Type, atomic_fields

Path = tuple[int, ...]


def widened(known: Type, written: Type) -> Type:
    """Return a schema with floats where ints are known and floats are written; the known one if they differ in another way.

    >>> from funken.expr.types import STR
    >>> widened(Tuple((INT, INT)), Tuple((INT, FLOAT))), widened(INT, STR)
    ((int, float), int)
    """
    if type(known) is Tuple and type(written) is Tuple and len(known) == len(written):
        return Tuple(map(widened, known, written))
    return FLOAT if (known, written) == (INT, FLOAT) else known


def with_floats(fill: Any, kind: Type) -> Any:
    """Return what stands where a state has no value, in the types of its schema.

    >>> with_floats((0, 0), Tuple((INT, FLOAT)))
    (0, 0.0)
    """
    if type(fill) is tuple and type(kind) is Tuple:
        return tuple(map(with_floats, fill, kind))
    return float(fill) if type(fill) is int and kind == FLOAT else fill


def with_declared_floats(made: Expression, kind: Type, wanted: Type) -> tuple[Expression, Type]:
    """Return what is written to a state whose type makes floats of ints, and its schema.

    >>> from funken.expr.types import STR
    >>> with_declared_floats(Make((Constant(1), Constant("a"))), Tuple((INT, STR)), Tuple((FLOAT, STR)))[1]
    (float, str)
    """
    if (kind, wanted) == (INT, FLOAT):
        return Invoke("float", (made,)), FLOAT
    if isinstance(made, Make) and type(kind) is Tuple and type(wanted) is Tuple and len(kind) == len(wanted):
        items = [with_declared_floats(*each) for each in zip(made.items, kind, wanted, strict=True)]
        return Make(tuple(each for each, _ in items)), Tuple(schema for _, schema in items)
    return made, kind


def check_floats(expressions: Iterable[Expression], paths: Sequence[Path], schema: Type) -> None:
    """Raise ``NotVectorizable`` if leaves are used in another way than to compute with floats."""
    kinds = dict(atomic_fields(schema))
    seen: set[int] = set()
    todo = [*expressions]
    for each in todo:
        _check(each, paths)  # as it is: who is given it sees what it is
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        parts = children(each)
        todo += parts
        for part in parts:
            if isinstance(each, Binary) and any(_is_float(other, kinds) for other in parts if other is not part):
                continue
            if not isinstance(each, Compare):
                _check(part, paths)


def _check(expression: Expression, paths: Sequence[Path]) -> None:
    if isinstance(expression, Argument) and any(
        expression.path == path[: len(expression.path)] for path in paths if len(expression.path) > 0
    ):
        raise NotVectorizable("shows a state that begins with an int and goes on with floats")


def _is_float(expression: Expression, kinds: dict[Path, Atomic]) -> bool:
    match expression:
        case Argument(0, path):
            return kinds.get(path) == FLOAT
        case Constant(value):
            return type(value) is float
        case Binary(op, left, right):
            return op == "/" or _is_float(left, kinds) or _is_float(right, kinds)
        case Unary("-", operand):
            return _is_float(operand, kinds)
        case After(_, result):
            return _is_float(result, kinds)
        case Choose(_, then, otherwise):
            return _is_float(then, kinds) and _is_float(otherwise, kinds)
        case Invoke(name, given):
            return name == "float" or (name in ("max", "min", "abs") and all(_is_float(each, kinds) for each in given))
        case Rowwise(_, _, kind):
            return kind == FLOAT
    return False


__all__ = ["check_floats", "widened", "with_floats"]
