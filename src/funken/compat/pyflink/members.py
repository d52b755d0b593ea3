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
from typing import Any, ClassVar

from funken.compat.pyflink.adoption import refuse


def sets(place: str, parameter: str, doc: str, make: Callable[[Any], Any] | None = None) -> Any:
    """Return a method that sets a place to its argument, or to the object that ``make`` makes of it.

    >>> class Cooling:
    ...     set_fan_speed = sets("_speed", "fan_speed", "Set the speed.", float)
    ...     get_fan_speed = gets("_speed", "Return the speed.")
    >>> Cooling().set_fan_speed(fan_speed=3).get_fan_speed()
    3.0
    """

    def put(self: Any, value: Any) -> Any:
        _put(self, place, value if make is None else make(value))
        return self

    return method(parameter, put, doc)


def puts(place: str, value: Any, doc: str) -> Any:
    """Return a method without parameters that sets a place to a value.

    >>> class Cooling:
    ...     _options = {}
    ...     stop = puts("_options.fan-speed", 0, "Stop the fan.")
    >>> Cooling().stop()._options
    {'fan-speed': 0}
    """

    def put(self: Any) -> Any:
        _put(self, place, value)
        return self

    return method("", put, doc)


def gets(attribute: str, doc: str, make: Callable[[Any], Any] | None = None) -> Any:
    """Return a method without parameters that returns an attribute, or the object that ``make`` makes of it."""

    def get(self: Any) -> Any:
        value = getattr(self, attribute)
        return value if make is None else make(value)

    return method("", get, doc)


def ignores(parameters: str, doc: str) -> Any:
    """Return a method that takes arguments and returns its object.

    >>> class Cooling:
    ...     set_fan_speed = ignores("fan_speed, unit='rpm'", "Accept and ignore: there is no fan.")
    >>> _ = Cooling().set_fan_speed(3)
    >>> Cooling().set_fan_speed()
    Traceback (most recent call last):
    ...
    TypeError: missing a required argument: 'fan_speed'
    """
    return method(parameters, lambda self, *_: self, doc)


def replaces(field: str, parameter: str, doc: str, make: Callable[[Any], Any] | None = None) -> Any:
    """Return a method of a data class that returns its object with another value of a field."""

    def put(self: Any, value: Any) -> Any:
        return replace(self, **{field: value if make is None else make(value)})

    return method(parameter, put, doc)


def refuses(parameters: str, what: str, instead: str, doc: str) -> Any:
    """Return a method that raises ``NotInFunken`` with the replacement."""
    return method(parameters, lambda self, *_: refuse(what, instead), doc)


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


def renamed(function: Callable[..., Any], **older: str) -> Any:
    """Return a function that also takes older names of its parameters.

    >>> renamed(lambda stream, output_type=None: output_type, result_type="output_type")("words", result_type="STRING")
    'STRING'
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{older.get(name, name): value for name, value in kwargs.items()})

    return call


class Remembered:
    """Base of settings without effect: ``set_x`` remembers, ``get_x`` returns it; names and defaults in ``_settings``.

    The parameter of ``set_x`` is ``x``, unless ``_parameters`` has another name for it.

    >>> class Cooling(Remembered):
    ...     _settings = {"fan_speed": 1}
    ...     _parameters = {"fan_speed": "speed"}
    >>> Cooling().set_fan_speed(speed=3).get_fan_speed(), Cooling().get_fan_speed()
    (3, 1)
    """

    _settings: ClassVar[dict[str, Any]]
    _parameters: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, default in vars(cls).get("_settings", {}).items():
            place, parameter = f"_set_{name}", cls._parameters.get(name, name)
            setattr(cls, place, default)
            setattr(cls, f"get_{name}", gets(place, f"Return the setting of ``set_{name}``."))
            setattr(
                cls,
                f"set_{name}",
                sets(place, parameter, f"Remember a value for ``get_{name}``; nothing else uses it."),
            )
