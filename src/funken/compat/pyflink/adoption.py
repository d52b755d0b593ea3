"""How Funken's objects become their PyFlink variants: by class, on the way out of a method.

A variant is a subclass without data of its own, so that an object can change its class. Every public method of a
variant that it does not define itself is that of its parent, with what it returns adopted; so a method that Funken
gets later needs nothing here.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

_VARIANTS: dict[type, type] = {}


def adopt(value: Any) -> Any:
    """Turn an object into its variant, if its class has one."""
    variant = _VARIANTS.get(type(value))
    if variant is not None:
        value.__class__ = variant
    return value


def adopting(native: type) -> Callable[[C], C]:
    """Register a class as the variant of ``native``, and make its methods adopt what they return."""

    def decorate(variant: C) -> C:
        members: dict[str, Any] = {}
        for owner in reversed([*_without_variant(native)]):
            members |= vars(owner)
        for name, member in members.items():
            if name.startswith("_") or name in vars(variant):
                continue
            if isinstance(member, types.FunctionType):
                setattr(variant, name, _adopting(member))
            elif isinstance(member, staticmethod):
                setattr(variant, name, staticmethod(_adopting(member.__func__)))
        _VARIANTS[native] = variant
        return variant

    return decorate


def _without_variant(native: type) -> Iterator[type]:
    """Yield a class, and its bases up to the first that has a variant: that one has adopted its own."""
    return itertools.takewhile(lambda owner: owner is not object and owner not in _VARIANTS, native.__mro__)


def _adopting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return adopt(method(*args, **kwargs))

    return call
