"""Expressions for arguments whose schemas are known: as kernels compute them, with the schemas of their results."""

from __future__ import annotations

from collections.abc import Sequence as Several

from funken.columnar.expressions import Expression, NotVectorizable, Raises
from funken.columnar.typed.aliases import Given, changeable, check_aliases
from funken.columnar.typed.documents import with_wanted
from funken.columnar.typed.inference import Inference, check_kept
from funken.columnar.typed.sharing import Sharing
from funken.columnar.typed.values import Typed
from funken.expr.types import Type


def typed(expression: Expression, *arguments: Type) -> Typed:
    """Return an expression for arguments of these schemas, and the schema of its results; raise ``NotVectorizable``.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.tracing import trace
    >>> typed(trace(lambda text: text.lower(), None, 1).result, STR)
    (Rowwise(function='str.lower', arguments=(Argument(argument=0, path=()),), kind=str), str)
    """
    return typed_and_read(expression, *arguments)[0]


def typed_and_read(expression: Expression, *arguments: Type) -> tuple[Typed, frozenset[tuple[int, ...]]]:
    """Return what ``typed`` does, and the paths of the fields of the first argument that it looked at, for constants too.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.tracing import trace
    >>> typed_and_read(trace(lambda pair: pair[1] is None, None, 1).result, Tuple((INT, STR)))
    ((Constant(value=False), bool), frozenset({(1,)}))
    """
    inference = Inference(arguments)
    made, schema = inference.of(expression)
    if isinstance(made, Raises):
        raise NotVectorizable("always raises an exception")
    check_kept(schema)
    if changeable(schema):
        check_aliases([Given(expression, lambda each: inference.of(each)[1])])
    return (with_wanted([Sharing().of(made)])[0], schema), inference.reads.paths(
        arguments[0]
    ) if arguments else frozenset()


def typed_under(
    conditions: Several[Expression], expression: Expression, *arguments: Type
) -> tuple[list[Expression], Typed] | None:
    """Return conditions, tested one after the other, and an expression where they are true; ``None``: they never are."""
    return Inference(arguments).under(tuple(conditions), expression)


def looked_at(
    expressions: Several[Expression], items: Expression | None, *arguments: Type
) -> frozenset[tuple[int, ...]]:
    """Return the paths of the fields of the first argument that expressions may look at, whether they come to it or not.

    ``items`` are the lists whose items are the second argument.
    """
    inference = Inference(arguments)
    if items is not None:
        inference.look_over(items, 1)
    for each in expressions:
        inference.look_at(each)
    return inference.reads.paths(arguments[0])


__all__ = ["looked_at", "typed", "typed_and_read", "typed_under"]
