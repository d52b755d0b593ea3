"""Everything public is documented, and shown by an example that runs.

Public is what ``funken`` and ``funken.testing`` export, with the methods and properties that its classes have from
anywhere in Funken. An exported class or function shows itself in its own docstring. A method is shown by its own
docstring too, or where an example of its class, or of one that overrides it, calls or defines it: so one telling example
may stand for several methods, and an interface is shown by a class that implements it. ``test_docs.py`` runs the examples.
"""

import doctest
import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import pytest

import funken
import funken.testing

METHODS = (staticmethod, classmethod, property, cached_property)
SURFACE = {name: getattr(module, name) for module in (funken.testing, funken) for name in module.__all__}
EXPORTED = [thing for _, thing in sorted(SURFACE.items()) if isinstance(thing, type)]
DOCUMENTED = sorted(name for name, thing in SURFACE.items() if callable(thing) or isinstance(thing, ModuleType))


@cache
def examples(docstring: str | None) -> str:
    """Return the source of a docstring's examples; one that is skipped shows nothing, nor does a comment."""
    found = doctest.DocTestParser().get_examples(docstring or "")
    return "".join(re.sub("#.*", "", each.source) for each in found if not each.options.get(doctest.SKIP))


def shown(owner: type, name: str) -> bool:
    """Whether a class shows one of its methods, in the method's docstring or in its own."""
    return bool(
        (name in vars(owner) and examples(vars(owner)[name].__doc__))
        or re.search(rf"(\.|\bdef ){name}\b", examples(owner.__doc__))
    )


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class defines itself."""
    for name, member in vars(owner).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, METHODS)):
            yield name, member


def faults_of_docstring(docstring: str | None) -> Iterator[str]:
    if not docstring:
        yield "has no docstring"
    elif not examples(docstring):
        yield "has no example that runs"


def faults_of_members(thing: type, exported: Iterable[type]) -> Iterator[str]:
    """Say what a class's methods lack; a base class that is exported as well answers for its own."""
    home = thing.__module__.split(".")[0]
    for owner in thing.__mro__:
        if owner.__module__.split(".")[0] != home or (owner is not thing and owner in exported):
            continue
        for name, member in members(owner):
            family = (each for each in (thing, *exported) if issubclass(each, owner) and name in vars(each))
            if not member.__doc__:
                yield f"{owner.__name__}.{name} has no docstring"
            elif not shown(owner, name) and not any(shown(each, name) for each in family):
                yield f"{owner.__name__}.{name} is shown by no example that runs"


def faults(thing: Any, exported: Iterable[type] = ()) -> list[str]:
    """Say what a public name lacks."""
    if isinstance(thing, ModuleType):
        own = {name: each for name, each in vars(thing).items() if getattr(each, "__module__", "") == thing.__name__}
        functions = {name: each for name, each in own.items() if inspect.isfunction(each) and not name.startswith("_")}
        return [f"{name}() {fault}" for name, each in functions.items() for fault in faults(each)]
    found = list(faults_of_docstring(thing.__doc__))
    return found + list(faults_of_members(thing, exported)) if isinstance(thing, type) else found


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_is_shown_by_examples(name):
    assert faults(SURFACE[name], EXPORTED) == []


class Tap:
    """A tap.

    >>> tap = Tap()
    >>> tap.open()  # doctest: +SKIP
    >>> tap.turn()  # and see the .flow
    """

    def open(self):
        """Open it."""

    def turn(self):
        """Turn it, by >>> degrees."""

    @property
    def flow(self):
        """How much flows."""

    @staticmethod
    def brass():
        pass


class Valve(Tap):
    """A valve."""

    def open(self):
        """Open it.

        >>> Valve().open()
        """


class Colour(enum.Enum):
    """A colour, whose members need no words.

    >>> Colour.RED.value
    1
    """

    RED = 1


def test_what_nobody_shows_is_noticed():
    def wild():
        pass

    assert faults(wild) == ["has no docstring"]
    assert faults(Colour) == []
    assert faults(Tap) == [
        "Tap.open is shown by no example that runs",
        "Tap.flow is shown by no example that runs",
        "Tap.brass has no docstring",
    ]


def test_a_class_may_show_what_it_overrides_and_answers_for_bases_that_are_not_public():
    assert faults(Tap, [Tap, Valve]) == ["Tap.flow is shown by no example that runs", "Tap.brass has no docstring"]
    assert faults(Valve, [Tap, Valve]) == ["has no example that runs"]
    assert faults(Valve, [Valve]) == ["has no example that runs", *faults(Tap, [Tap, Valve])]
