"""Methods of PyFlink's settings and builders that are alike, declared in a line each: setters, getters, those without effect.

A setter returns its object. A place is the name of an attribute; ``"_options.quote"`` is the key ``quote`` of the attribute
``_options``. Parameters are written as in a signature: ``"size, unit='MB'"``.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, overload

from funken.compat.pyflink.adoption import refuse
from funken.types.callables import Generic, IN_contra, OUT_co, R, S


class Setter(Protocol[IN_contra, OUT_co]):
    """A method of one parameter, by position or by name."""

    @overload
    def __call__(self, value: IN_contra, /) -> OUT_co: ...
    @overload
    def __call__(self, **named: IN_contra) -> OUT_co: ...


class sets(Generic[R]):
    """A method that sets a place to its argument, or to the object that ``make`` makes of it; ``R`` is the argument's type.

    >>> class Cooling:
    ...     set_fan_speed = sets[float]("_speed", "fan_speed", "Set the speed.", float)
    ...     get_fan_speed = gets[float]("_speed", "Return the speed.")
    >>> Cooling().set_fan_speed(fan_speed=3).get_fan_speed()
    3.0
    """

    def __new__(cls, place: str, parameter: str, doc: str, make: Callable[[R], object] | None = None) -> Self:
        """Return the function; a checker sees a descriptor."""

        def put(owner: Any, value: Any) -> Any:
            _put(owner, place, value if make is None else make(value))
            return owner

        made: Self = method(parameter, put, doc)
        return made

    if TYPE_CHECKING:

        def __get__(self, owner: S, kind: type | None = None, /) -> Setter[R, S]: ...


class puts:
    """A method without parameters that sets a place to a value.

    >>> class Cooling:
    ...     _options = {}
    ...     stop = puts("_options.fan-speed", 0, "Stop the fan.")
    >>> Cooling().stop()._options
    {'fan-speed': 0}
    """

    def __new__(cls, place: str, value: object, doc: str) -> Self:
        """Return the function; a checker sees a descriptor."""

        def put(owner: Any) -> Any:
            _put(owner, place, value)
            return owner

        made: Self = method("", put, doc)
        return made

    if TYPE_CHECKING:

        def __get__(self, owner: S, kind: type | None = None, /) -> Callable[[], S]: ...


class gets(Generic[R]):
    """A method without parameters that returns an attribute, or the object that ``make`` makes of it; ``R`` is its type."""

    def __new__(cls, attribute: str, doc: str, make: Callable[[Any], R] | None = None) -> Self:
        """Return the function; a checker sees a descriptor."""

        def get(owner: Any) -> Any:
            value = getattr(owner, attribute)
            return value if make is None else make(value)

        made: Self = method("", get, doc)
        return made

    if TYPE_CHECKING:

        def __get__(self, owner: object, kind: type | None = None, /) -> Callable[[], R]: ...


class ignores:
    """A method that takes arguments and returns its object.

    >>> class Cooling:
    ...     set_fan_speed = ignores("fan_speed, unit='rpm'", "Accept and ignore: there is no fan.")
    >>> _ = Cooling().set_fan_speed(3)
    >>> Cooling().set_fan_speed()
    Traceback (most recent call last):
    ...
    TypeError: missing a required argument: 'fan_speed'
    """

    def __new__(cls, parameters: str, doc: str) -> Self:
        """Return the function; a checker sees a descriptor."""
        made: Self = method(parameters, lambda owner, *_: owner, doc)
        return made

    if TYPE_CHECKING:

        def __get__(self, owner: S, kind: type | None = None, /) -> Callable[..., S]: ...


class replaces(Generic[R]):
    """A method of a data class that returns its object with another value of a field; ``R`` is the type of the value."""

    def __new__(cls, field: str, parameter: str, doc: str, make: Callable[[R], object] | None = None) -> Self:
        """Return the function; a checker sees a descriptor."""

        def put(owner: Any, value: Any) -> Any:
            return replace(owner, **{field: value if make is None else make(value)})

        made: Self = method(parameter, put, doc)
        return made

    if TYPE_CHECKING:

        def __get__(self, owner: S, kind: type | None = None, /) -> Setter[R, S]: ...


def refuses(parameters: str, what: str, instead: str, doc: str) -> Callable[..., NoReturn]:
    """Return a method that raises ``NotInFunken`` with the replacement."""
    refusal: Callable[..., NoReturn] = method(parameters, lambda owner, *_: refuse(what, instead), doc)
    return refusal


def _put(owner: Any, place: str, value: Any) -> None:
    attribute, _, key = place.partition(".")
    if key:
        getattr(owner, attribute)[key] = value
    else:
        setattr(owner, attribute, value)


def method(parameters: str, work: Callable[..., Any], doc: str) -> Any:
    """Return a method with these parameters that does some work with its object and their values."""
    written = [each.partition("=") for each in f"self, {parameters}".split(", ") if each]
    signature = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=ast.literal_eval(default) if is_optional else inspect.Parameter.empty,
            )
            for name, is_optional, default in written
        ]
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return work(*bound.args)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = doc
    return call


def renamed(function: Callable[..., R], **older: str) -> Callable[..., R]:
    """Return a function that also takes older names of its parameters.

    >>> renamed(lambda stream, output_type=None: output_type, result_type="output_type")("words", result_type="STRING")
    'STRING'
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        return function(*args, **{older.get(name, name): value for name, value in kwargs.items()})

    return call
