"""Parts of texts in expressions: what is read of ``text.split(separator)`` and ``text.partition(separator)``."""

from __future__ import annotations

from funken.columnar.expressions import Constant, Expression, Rowwise

_PARTITION = {"str.partition.0", "str.partition.1", "str.partition.2"}


def unsplit(expression: Expression) -> Expression:
    """Return what can raise of an expression whose result is not read: of the parts of a text, the text.

    >>> from funken.columnar.expressions import Argument
    >>> unsplit(Rowwise("str.split", (Argument(0), Constant(",")), "list of str"))
    Argument(argument=0, path=())
    """
    match expression:
        case Rowwise("str.split" | "str.rsplit", (text, Constant(str(separator)))) if separator:
            return unsplit(text)
        case Rowwise(function, (text, Constant(str(separator)))) if function in _PARTITION and separator:
            return unsplit(text)
    return expression


def is_partition(expression: Expression) -> bool:
    """Whether it is an item of ``text.partition(separator)``, of which none can raise."""
    return (
        unsplit(expression) is not expression and isinstance(expression, Rowwise) and expression.function in _PARTITION
    )


def takes_part(expression: Rowwise) -> bool:
    """Whether something is taken of the parts of a text.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.expressions import Argument
    >>> takes_part(Rowwise("str.partition.0", (Argument(0), Constant(",")), STR))
    True
    """
    match expression:
        case Rowwise(function) if function in _PARTITION:
            return True
        case Rowwise(_, (Rowwise("str.split" | "str.rsplit"), *_)):
            return True
    return False


__all__ = ["is_partition", "takes_part", "unsplit"]
