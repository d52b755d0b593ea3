"""Arrow without pandas, which it imports with its first array: 0.14 s of CPU time in every worker of a job.

pyarrow wants to recognize objects of pandas, and looks for pandas once in a process. A worker that is given a program in which
pandas does not occur lets it look when there is none to be found. Should something import pandas later nevertheless, pyarrow is
told: it knows frames, series and indexes then. What it will not know are ``NaT`` and ``NA`` as values of lists, so this is not
for processes that run one program after the other.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAME = "pandas"


def spare_pandas(program: bytes) -> None:
    """Let pyarrow not import pandas, unless it is imported, or a pickled program has its name in it.

    A pyarrow of another build is left as it is.
    """
    if _NAME in sys.modules or _NAME.encode() in program:
        return
    arrow = importlib.import_module("pyarrow")
    shim: Any = getattr(arrow.lib, "_pandas_api", None)
    if not hasattr(type(shim), "have_pandas") or not hasattr(type(shim), "pd"):
        return
    watch = _Watch(shim)
    sys.meta_path.insert(0, watch)
    try:
        arrow.array([0])  # the part of pyarrow in C++ and the one in Python look once each
    finally:
        watch.answers = False
    if shim.have_pandas:
        sys.meta_path.remove(watch)


class _Watch(MetaPathFinder):
    """Says that there is no pandas, as long as it ``answers``; then tells pyarrow when it is imported."""

    def __init__(self, shim: Any) -> None:
        self._shim = shim
        self.answers = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find."""
        if fullname != _NAME:
            return None
        if self.answers:
            raise ModuleNotFoundError(f"{_NAME} is not looked for yet", name=_NAME)
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = self._telling(loader.exec_module)
        return spec

    def _telling(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            with contextlib.suppress(ImportError):  # too old for pyarrow, which says so where it is used
                _ = self._shim.pd

        return execute_and_tell


__all__ = ["spare_pandas"]
