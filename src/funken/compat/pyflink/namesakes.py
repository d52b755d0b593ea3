"""Functions of ``pyflink.table.expressions`` that are called as modules of Python's library: ``json``, ``uuid``, ``array``.

``from pyflink.table.expressions import *`` hides the module that a program has imported before. These functions pass on what the
program asks of the module, so ``json.loads(text)`` works behind the import.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from funken.table import expressions


class Namesake:
    """A function that has the attributes of a module of the same name.

    >>> json.loads("[1]"), str(json("[1]"))
    ([1], "JSON('[1]')")
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.__signature__ = inspect.signature(getattr(expressions, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Namesake, (self._name,)

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return getattr(expressions, self._name)(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_name":
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


array, json, uuid = Namesake("array"), Namesake("json"), Namesake("uuid")

__all__ = ["array", "json", "uuid"]
