"""A count of ``Any`` in the signatures that a user of Funken sees.

Seen are the names that a public module exports, with the public methods and attributes that their classes have from
anywhere in Funken. The implementation behind overloads is not seen.

    python -m tests.typing.any_in_signatures
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType

MODULES = {
    "api": ("funken",),
    "cep": ("funken.cep",),
    "dataframe": ("funken.dataframe",),
    "dataset": ("funken.dataset",),
    "graph": ("funken.graph",),
    "ml": ("funken.ml",),
    "pyflink": tuple(
        f"funken.compat.pyflink.{name}"
        for name in [
            "backends",
            "catalogs",
            "connectors",
            "environment",
            "exceptions",
            "file_formats",
            "formats",
            "functions",
            "jobs",
            "kinesis",
            "older_connectors",
            "older_tables",
            "pulsar",
            "resources",
            "search",
            "settings",
            "states",
            "streams",
            "table_environments",
            "tables",
            "times",
            "types",
            "watermarks",
            "windows",
        ]
    ),
    "state": ("funken.state.descriptors", "funken.state.handles"),
    "table": ("funken.table",),
}
SHOWN = ("__init__", "__call__", "__getitem__", "__iter__", "__next__", "__enter__")


@cache
def syntax(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@cache
def definitions(module: str) -> dict[str, list[ast.stmt]]:
    """Return the classes and functions that a module defines, by name."""
    found: dict[str, list[ast.stmt]] = {}
    for node in syntax(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def seen(nodes: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions among statements: of an overloaded one its overloads only."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    overloaded = {node.name for node in functions if is_overload(node)}
    for node in functions:
        if is_overload(node) or node.name not in overloaded:
            yield node


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = node.args
    each = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (argument.annotation for argument in each if argument is not None and argument.annotation is not None)
    if node.returns is not None:
        yield node.returns


def anys(expression: ast.expr) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(expression))


def of_class(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    for function in seen(node.body):
        if not function.name.startswith("_") or function.name in SHOWN:
            yield f"{node.name}.{function.name}", sum(map(anys, annotations(function)))
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if not statement.target.id.startswith("_"):
                yield f"{node.name}.{statement.target.id}", anys(statement.annotation)
        elif isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            yield from ((f"{node.name}.{name}", count) for name, count in of_class(statement))


def counted(*modules: str) -> dict[str, int]:
    """Return how often each public member of modules says ``Any``: only those that do."""
    found: dict[str, int] = {}
    for module in map(importlib.import_module, modules):
        for owner, name in defined(module):
            for node in definitions(owner).get(name, ()):
                if isinstance(node, ast.ClassDef):
                    found |= {f"{owner}.{member}": count for member, count in of_class(node)}
            for function in seen(definitions(owner).get(name, [])):
                found[f"{owner}.{name}"] = sum(map(anys, annotations(function)))
    return {name: count for name, count in found.items() if count}


def defined(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the modules and names of the classes and functions behind the public names of a module."""
    names = getattr(module, "__all__", None)
    public = [getattr(module, name) for name in names or vars(module) if not name.startswith("_")]
    home = "funken." if names else module.__name__
    for value in public:
        for each in value.__mro__ if isinstance(value, type) else (value,):
            owner = getattr(each, "__module__", None) or ""
            if owner.startswith(home) and hasattr(each, "__name__"):
                yield owner, each.__name__


if __name__ == "__main__":
    for room, public in MODULES.items():
        counts = counted(*public)
        print(f"{room}: {sum(counts.values())} in {len(counts)} members")  # noqa: T201
