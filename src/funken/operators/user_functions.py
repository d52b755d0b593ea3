"""User functions as the plan carries them: one class for lambdas, callables and function objects.

The API turns whatever the user gave into a ``UserFunction`` once; operators only ``bind`` it. A bound call is the plain
function or bound method, so that calling it costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from funken.dataclass import dataclass
from funken.operators.context import OperatorContext, RuntimeContext
from funken.operators.operator_state import prepare


@dataclass(frozen=True)
class UserFunction:
    """A user function: ``target`` itself if ``method`` is ``None``, else that method of it.

    ``rich`` functions are opened and closed with the operator.
    """

    target: Any
    method: str | None = None
    rich: bool = False

    def bind(self) -> Callable[..., Any]:
        """Return the callable to use per record."""
        call: Callable[..., Any] = self.target if self.method is None else getattr(self.target, self.method)
        return call

    def open(self, context: OperatorContext) -> None:
        """Open a rich function, with its operator state; do nothing for another."""
        prepare(self.target, context)
        if self.rich:
            self.target.open(RuntimeContext(context))

    def close(self) -> None:
        """Close a rich function; do nothing for another."""
        if self.rich:
            self.target.close()

    def __repr__(self) -> str:
        target = self.target
        return getattr(target, "__qualname__", None) or type(target).__qualname__


def call_of(function: Any, method: str) -> UserFunction:
    """Return a function, a bound method or an object with a method as a call whose method, if any, is named.

    >>> call_of(len, "map").method, call_of("text".upper, "map").method
    (None, None)
    """
    if isinstance(function, MethodType):
        return UserFunction(function.__self__, function.__name__)
    return UserFunction(function) if callable(function) else UserFunction(function, method)
