"""Public names of a package, each imported when it is first used.

A package ``p`` lists its names in ``p/__init__.pyi``: type checkers read that file, and so does ``public_names``.
Its ``__init__.py`` is one call:

    __getattr__, __dir__, __all__ = public_names(__name__)

So a name is declared once, and a program that uses five of 200 names imports what these five need.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from opcode import opmap
from pathlib import Path
from typing import Any

from funken.extras import explained

_HERE = Path(__file__).parent
_IMPORTS = opmap["IMPORT_FROM"]
_IMPORT = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


class LoadedLater:
    """A module that is imported when something of it is first used.

    >>> fractions = LoadedLater("fractions")
    >>> fractions.Fraction(1, 2)
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # the next time it is an attribute
        return found


def declared_names(stub: str) -> dict[str, tuple[str, str]]:
    r"""Return the public names that a stub imports, with the module and the name of each there.

    >>> declared_names("from a.b import (\n    One,\n    two as deux,\n)\nfrom a.c import Three")
    {'One': ('a.b', 'One'), 'deux': ('a.b', 'two'), 'Three': ('a.c', 'Three')}
    """
    names = {}
    for module, several, one in _IMPORT.findall(stub):
        for part in (several or one).split(","):
            if part.strip():
                name, _, public = part.strip().partition(" as ")
                names[public or name] = (module, name)
    return names


def home_of(name: str) -> str | None:
    """Return the public package of Funken that has a name; ``None`` if none has.

    >>> home_of("KafkaSource"), home_of("OutputTag"), home_of("NoSuchThing")
    ('funken.connectors.kafka', 'funken', None)
    """
    listed = re.compile(rf"^from .+ import .*\b{name}\b|^    {name},$|^    \"{name}\",$", re.MULTILINE)
    files = sorted(_HERE.glob("**/__init__.py*"), key=lambda each: (len(each.parts), str(each)))
    for file in files:
        package = file.relative_to(_HERE).parts[:-1]
        if package[:1] != ("compat",) and file.suffix in {".py", ".pyi"} and listed.search(file.read_text("utf-8")):
            return ".".join(("funken", *package))
    return None


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose stub declares its public names.

    >>> import funken
    >>> funken.TimeWindow.__module__, "TimeWindow" in dir(funken), "TimeWindow" in funken.__all__
    ('funken.windowing.windows', True, True)
    >>> funken.TimeWindows
    Traceback (most recent call last):
    ...
    AttributeError: module 'funken' has no attribute 'TimeWindows'. Did you mean TimeWindow?
    """
    module = sys.modules[package]
    loader: Any = module.__spec__ and module.__spec__.loader
    stub = loader.get_data(re.sub(r"\.pyc?$", ".pyi", str(module.__file__))).decode()
    names = declared_names(stub)

    def load(name: str) -> Any:
        if name not in names:
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            from difflib import get_close_matches  # noqa: PLC0415 - importing funken stays light

            near = get_close_matches(name, names, 1, 0.75)
            alike = [each for each in names if "_" in name and each.startswith(name.partition("_")[0] + "_")]
            text = f"{name!r}. Did you mean {near[0]}?" if near else repr(name)
            if alike and not near:
                text = f"{text}. There are {', '.join(alike[:6])}"
            asking = sys._getframe(1)
            if asking.f_code.co_code[asking.f_lasti] == _IMPORTS:  # Python would drop the text of the other error
                home = None if near else home_of(name)
                if near or home:
                    text = text if near else f"{text}. Write: from {home} import {name}"
                    raise ImportError(f"cannot import name {text}", name=package)
            raise AttributeError(f"module {package!r} has no attribute {text}", name=name, obj=None)
        where, there = names[name]
        try:
            parent = import_module(where)
        except ModuleNotFoundError as error:
            raise explained(error) from error
        value = getattr(parent, there) if hasattr(parent, there) else import_module(f"{where}.{there}")
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *names}), sorted(names)


@contextmanager
def importing() -> Iterator[None]:
    """Leave the garbage collector off while modules are imported, which make no garbage; it never looks at them later.

    For a process of Funken's own: ``funken sql`` took 110 of its 470 ms to look for garbage among modules.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()
