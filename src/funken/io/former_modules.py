"""Classes under the names of their modules of before, for savepoints in which these names are written.

A pickle names each class by its module. No two classes have the same name, so a class whose module is gone is found by its own
name. Of functions and constants that have the same name, the one in the nearest module is meant; if that is not clear, none is.
"""

from __future__ import annotations

import importlib.util
import io
import pickle
import re
import sys
from functools import cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_CLASS, _OTHER = r"^class (\w+)", r"^(?:async )?(?:def )?(\w+)(?:\(|(?:: [^=\n]+)? = )"


@cache
def _definitions(pattern: str) -> dict[str, set[str]]:
    """Return the names that each module of Funken defines so; reads its source, which takes half a second."""
    return {
        ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): set(
            re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        )
        for path in _PACKAGE.rglob("*.py")
    }


def _is_gone(module: str) -> bool:
    """Return True for a module of Funken that is not there any more."""
    if module in sys.modules or not module.startswith("funken."):
        return False
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # nor is its package
        return True


@cache
def module_now(module: str, name: str) -> str:
    """Return the module that has a class or function today.

    >>> module_now("funken.state.snapshot_writer", "SnapshotWriter"), module_now("decimal", "Decimal")
    ('funken.state.delta_tables', 'decimal')
    """
    if not _is_gone(module):
        return module
    for pattern in (_CLASS, _OTHER):
        near: dict[int, list[str]] = {}
        for each, names in _definitions(pattern).items():
            if name.partition(".")[0] in names:
                shared = commonprefix([each.split("."), module.split(".")])  # noqa: RUF071 - of lists
                near.setdefault(len(shared), []).append(each)
        if near:
            found = near[max(near)]
            return found[0] if len(found) == 1 else module
    return module


class FormerUnpickler(pickle.Unpickler):
    """Finds classes by the module that has them today."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function."""
        return super().find_class(module_now(module, name), name)


def loads(data: bytes | memoryview) -> Any:
    """Unpickle state, also of a version whose modules were others."""
    try:
        return pickle.loads(data)
    except ModuleNotFoundError as error:
        return _again(io.BytesIO(data), error)


def load(stream: io.BytesIO) -> Any:
    """Unpickle the state at the place of a stream, also of a version whose modules were others."""
    place = stream.tell()
    try:
        return pickle.load(stream)
    except ModuleNotFoundError as error:
        stream.seek(place)
        return _again(stream, error)


def _again(stream: io.BytesIO, error: ModuleNotFoundError) -> Any:
    if error.name is None or not error.name.startswith("funken."):
        raise error
    return FormerUnpickler(stream).load()
