"""What a form is: equal keys have equal forms, different keys have different ones. And the errors for keys without one."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from funken.errors import KeyNotHashable

_object_eq: Any = object.__eq__


class Named(NamedTuple):
    """The form of keys that are equal to keys of their own kind only.

    ``hashed`` is hashed as a tuple of keys; ``identity`` begins with the name of the kind and tells all its keys apart.
    """

    hashed: tuple[Any, ...]
    identity: tuple[Any, ...]


class Greatest:
    """A key that is equal to itself only, and greater than all others: NaN where keys are sorted, as in Java.

    >>> sorted([NAN, 2.0, 1.0]), max([(1, NAN), (1, 5)]), NAN < NAN, NAN == NAN
    ([1.0, 2.0, nan], (1, nan), False, True)
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __le__(self, other: object) -> bool:
        return other is self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return "NAN" if self is NAN else "NO_TIME"


NAN = Greatest("nan")
"""The form of every real number that is not a number."""
NO_TIME = Greatest("NaT")
NAT = Named(("dt", "NaT"), ("NaT",))
"""The form of every time, and every duration, that is none."""

Form: TypeAlias = Callable[[Any], Any]
"""Returns the form of a key of one class."""

EXACT = frozenset(
    {str, int, bytes, bool, tuple, frozenset, decimal.Decimal, fractions.Fraction, float, complex, type(None)}
)
"""The classes of plain forms. Numbers among them may still be NaN, or complex with a real value."""


def alone(*identity: Any) -> Named:
    """Return the form of a key whose hash is that of all that tells it apart."""
    return Named(identity, identity)


def float_form(key: Any) -> Any:
    """Return the form of a float."""
    return key if key == key else NAN  # noqa: PLR0124 - this is what NaN is


def complex_form(key: Any) -> Any:
    """Return the form of a complex number: of its real part, if that is all."""
    key = complex(key)
    if key.imag == 0:
        return float_form(key.real)
    if key == key:  # noqa: PLR0124
        return key
    return alone("complex", key.real, key.imag)


def refusal(key: Any, why: str = "") -> KeyNotHashable:
    """Return the error for a key that has no form."""
    kind: Any = type(key)
    if not why:
        own = kind.__eq__ is not _object_eq
        why = (
            "its class has an __eq__ or __hash__ of its own, which only this process can ask"
            if own
            else "it is equal to nothing but itself, so only this process knows it"
        )
    return KeyNotHashable(
        f"a key of type {kind.__qualname__!r} ({short(key)}) has no hash that is equal in every process: {why}. Return a "
        "str, number, tuple, enum or frozen dataclass from the key selector, or give the class a method "
        "__stable_hash__() -> int."
    )


def unhashable(key: Any) -> KeyNotHashable:
    """Return the error for a key that Python cannot hash."""
    return KeyNotHashable(
        f"unhashable type: {type(key).__qualname__!r}. The value of {short(key)} may change, so it is no key. Return something "
        "hashable from the key selector, for example a tuple instead of a list."
    )


def short(value: Any) -> str:
    """Return the text of a value, or the beginning of it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is for a message only
        return "..."
    return text if len(text) <= 80 else text[:77] + "..."
