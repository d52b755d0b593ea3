"""PyFlink variants of Funken's objects: by class, as results of methods.

A variant is a subclass without data of its own, so that an object can change its class. Every public method of a
variant that it does not define itself is that of its parent, with what it returns adopted; so a method that Funken
gets later needs nothing here.
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from funken.errors import InvalidProgram

C = TypeVar("C", bound=type)

_VARIANTS: dict[type, type] = {}


def variants() -> dict[type, type]:
    """Return the variants of Funken's classes."""
    return _VARIANTS


def adopt(value: Any) -> Any:
    """Turn an object into its variant, if its class has one."""
    variant = _VARIANTS.get(type(value))
    if variant is not None:
        value.__class__ = variant
    return value


def adopting(native: type) -> Callable[[C], C]:
    """Register a class as the variant of ``native``, and make its methods adopt their results."""

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


# ---- What a PyFlink program may ask for and does not get, and what it is told to use instead.
#
# Three answers: refused (``NotInFunken``, it needs Flink's JVM), not there yet (``NotAvailableYet``), and accepted
# without effect (a warning, once per line of the program).


class NotInFunken(InvalidProgram, NotImplementedError):
    """Something of PyFlink that only works with Flink's JVM."""


class JavaAttribute(NotInFunken, AttributeError):
    """A Java object behind one of PyFlink's own; so ``hasattr`` says that there is none."""


class NotAvailableYet(InvalidProgram, NotImplementedError):
    """Something of PyFlink that Funken will have."""


JVM = "There is no JVM of Flink's behind a Funken program"


class JavaObject:
    """Stands for a Java object behind one of PyFlink's own: it has the methods that programs call, and no others.

    >>> JavaObject("env._j_env", {"getParallelism": lambda: 2}, "Use env.get_parallelism().").getName()
    Traceback (most recent call last):
    ...
    funken.compat.pyflink.adoption.JavaAttribute: env._j_env.getName cannot work: There is no JVM of Flink's behind a Funken
    program. Use env.get_parallelism().
    """

    def __init__(self, name: str, calls: dict[str, Callable[..., Any]], instead: str) -> None:
        self._name = name
        self._calls = calls
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        if name not in self._calls:
            raise JavaAttribute(f"{self._name}.{name} cannot work: {JVM}. {self._instead}")
        return self._calls[name]


def refuse(what: str, instead: str) -> NoReturn:
    """Raise ``NotInFunken``."""
    raise NotInFunken(f"{what} cannot work: {JVM}. {instead}")


def removed(what: str, instead: str) -> None:
    """Warn about a call that PyFlink 2 does not have any more."""
    warnings.warn(f"{what} was removed in PyFlink 2; {instead}", DeprecationWarning, stacklevel=3)


def without_java(what: str, instead: str) -> None:
    """Warn about a call of Flink's Java classes that Funken answers itself."""
    warnings.warn(
        f"{what} is a call of Flink's Java classes, which Funken answers; use {instead}.",
        DeprecationWarning,
        stacklevel=3,
    )


def without_effect(what: str, why: str) -> None:
    """Warn about a call that changes nothing."""
    warnings.warn(f"{what} has no effect: {why}", UserWarning, stacklevel=3)


class _Raising(type):
    """Makes every use of a class raise; importing and naming it is fine."""

    reason: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotAvailableYet(f"{cls.__name__} is not available yet: {cls.reason}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: cls()


def not_yet(name: str, reason: str, module: str) -> type:
    """Return a class of that name, any use of which says that it is not there yet.

    >>> not_yet("KafkaSource", "read a file.", __name__).builder()
    Traceback (most recent call last):
    ...
    funken.compat.pyflink.adoption.NotAvailableYet: KafkaSource is not available yet: read a file.
    """
    return _Raising(name, (), {"reason": reason, "__module__": module, "__doc__": f"Not available yet: {reason}"})


def is_not_there_yet(cls: type) -> bool:
    """Return True if any use of a class says that it is not there yet.

    >>> is_not_there_yet(not_yet("KafkaSource", "read a file.", __name__)), is_not_there_yet(int)
    (True, False)
    """
    return isinstance(cls, _Raising)
