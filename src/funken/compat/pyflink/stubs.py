"""Stubs of ``pyflink`` for type checkers, which do not run the import hook: names, and the modules that define them."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from funken.compat.pyflink import variant_stubs
from funken.compat.pyflink.adoption import variants
from funken.compat.pyflink.finder import MODULES, passed_on, public_names
from funken.compat.pyflink.functions import Subscriptable


def write(folder: Path) -> int:
    """Write the stubs of all modules below ``folder``/pyflink; return the number of modules.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = write(Path(folder))
    ...     text = Path(folder, "pyflink", "datastream", "window.pyi").read_text()
    >>> count == len(MODULES), "from funken.windowing.windows import TimeWindow as TimeWindow" in text
    (True, True)
    """
    for module in MODULES:
        is_package = any(other.startswith(f"{module}.") for other in MODULES)
        place = folder.joinpath(*module.split("."))
        place = place / "__init__.pyi" if is_package else place.with_suffix(".pyi")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(["from typing import Any", "", *_lines(module), ""]), encoding="utf-8")
    folder.joinpath(*variant_stubs.MODULE.split(".")).with_suffix(".pyi").write_text(
        variant_stubs.text(), encoding="utf-8"
    )
    return len(MODULES)


def _lines(module: str) -> Iterator[str]:
    """Yield a line for each name: those of the module, and those of others that PyFlink's module passes on."""
    done = {"Any"}
    for source in passed_on(module):
        for name, value in public_names(source).items():
            if name not in done:
                done.add(name)
                yield _line(source, name, value)


def _line(source: str, name: str, value: Any) -> str:
    """Return the line of a name: an import from where a checker finds its definition."""
    if isinstance(value, type) and value in variants().values():
        return f"from {variant_stubs.MODULE} import {value.__name__} as {name}"
    if isinstance(value, type):
        # Some classes of the layer are made from Funken's class of the same name, which a checker can read.
        bases = sorted(value.__mro__[:-1], key=lambda each: (each.__name__ != value.__name__, _adds_nothing(each)))
        for each in bases:
            if each.__module__ == "builtins":
                return f"class {name}({each.__name__}): ..."
            if each.__name__ in _classes(each.__module__):
                return f"from {each.__module__} import {each.__name__} as {name}"
    elif inspect.isfunction(value) and value.__name__ in _values(value.__module__):
        return f"from {value.__module__} import {value.__name__} as {name}"
    elif name in _values(source):
        return f"from {source} import {name} as {name}"
    return f"{name}: Any"


def _adds_nothing(cls: type) -> bool:
    """Return True if a class only lets programs write type parameters, as Funken's class of its name does by itself."""
    named = [each for each in cls.__mro__[1:] if each.__name__ == cls.__name__]
    if Subscriptable not in cls.__mro__ or not named:
        return False
    own = {name for each in cls.__mro__[: cls.__mro__.index(named[0])] for name in vars(each) if name[0] != "_"}
    return own <= {"BaseContext", *dir(named[0])}


@cache
def _text(module: str) -> ast.Module:
    """Return the syntax of a module; an empty one of a module without a text."""
    try:
        return ast.parse(inspect.getsource(importlib.import_module(module)))
    except (OSError, TypeError):
        return ast.Module([], [])


@cache
def _classes(module: str) -> frozenset[str]:
    return frozenset(each.name for each in _text(module).body if isinstance(each, ast.ClassDef))


@cache
def _values(module: str) -> frozenset[str]:
    """Return the names of the functions and values that the text of a module defines."""
    found = set[str]()
    for each in _text(module).body:
        targets: list[ast.expr] = []
        if isinstance(each, ast.Assign):
            targets = each.targets
        elif isinstance(each, ast.AnnAssign):
            targets = [each.target]
        elif isinstance(each, ast.FunctionDef):
            found.add(each.name)
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)
