"""Functions of ``map`` that give a record or ``None``, where only filters see the ``None``: they give one result or none."""

from __future__ import annotations

from dataclasses import replace
from types import CodeType
from typing import Any

from funken.columnar.bytecode import is_followed
from funken.columnar.calling.markers import expression_on
from funken.columnar.expressions import Choose, Constant, Expression, NotVectorizable, Sequence, Unary
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Code
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap
from funken.columnar.flat_maps.tracing import FlatMapTracer, under
from funken.columnar.tracing import Traced, function_of, with_method
from funken.expr.types import NONE, Type


@reads
def trace_maybe(target: Any, method: str | None, schema: Type | None = None) -> TracedFlatMap:
    """Return what a function of one record gives if it is not ``None``; raise ``NotVectorizable`` with the reason.

    >>> found = trace_maybe(lambda n: (n, 10 // n) if n else None, None)
    >>> [each.guards for each in found.emissions if each.emits]
    [(Argument(argument=0, path=()),)]
    """
    function = function_of(target, method)
    traced = _MaybeTracer(function, 1, bound=method is not None, target=target).of(schema, changes=True).read()
    return with_method(traced, function, method)


@reads
def drops_none(condition: Traced) -> bool:
    """Whether the condition of a filter is never true of ``None``, whatever happens to the variables that it uses.

    >>> from funken.columnar.tracing import trace
    >>> [drops_none(trace(each, None, 1)) for each in (lambda r: r is not None, lambda r: r, lambda r: r is None)]
    [True, True, False]
    """
    if any(each.kind not in ("method", "builtin") for each in condition.dependencies):
        return False
    try:
        return condition.condition(NONE).result == Constant(False)
    except NotVectorizable:
        return False


class _MaybeTracer(FlatMapTracer):
    """Follows one function: each value that it returns is a result of its own."""

    @staticmethod
    def _check(code: CodeType) -> None:
        if not is_followed(code):
            raise NotVectorizable("is a generator, or has variable arguments")

    @staticmethod
    def _is_given(code: Code, number: int) -> bool:
        return False  # a comprehension that is returned is one result

    def _give(self, value: Any, at: Emission) -> None:
        self._give_choice(expression_on(value), at)

    def _give_choice(self, value: Expression, at: Emission) -> None:
        match value:
            case Choose(condition, then, otherwise):
                self._give_choice(then, under(at, condition))
                self._give_choice(otherwise, under(at, Unary("not", condition)))
            case Sequence(before, result):
                self._give_choice(result, at)
                self._end(before, at)
            case Constant(None):
                pass
            case _:
                self._emit(replace(at, result=value))


__all__ = ["drops_none", "trace_maybe"]
