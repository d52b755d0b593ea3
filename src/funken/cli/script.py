"""A user's program, run as ``python`` would run it: a file, a folder or a zip file with a ``__main__.py``, or a module (``-m``).

The program is ``__main__``, with the names that Python gives to that module, its own ``sys.argv``, and its folder (of ``-m``:
the working folder) first on the path. No ``from __future__`` of this package applies to it. The module stays ``__main__`` when
the program has ended, since its classes may still travel to workers. The stack is not the same: frames of Funken are below it.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import pkgutil
import re
import sys
import types
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from typing import Any

import click

from funken.dataclass import dataclass

_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")


@dataclass(frozen=True)
class Loaded:
    """The code of a program, and the name and namespace of its module."""

    code: types.CodeType
    argument: str
    """The value of ``sys.argv[0]``."""
    names: dict[str, Any]


def run_script(script: str, arguments: tuple[str, ...], as_module: bool = False) -> None:
    """Run a program as ``__main__``; with ``as_module``, ``script`` is the name of a module."""
    importer = None if as_module else pkgutil.get_importer(_absolute(script))
    sys.argv = ["-m" if as_module else script, *arguments]
    if importer is not None:
        _put_first(_absolute(script), always=True)
    else:
        _put_first(_working_folder() if as_module else os.path.dirname(os.path.realpath(script)))
    loaded = _of_module(script) if as_module else _of_file(script) if importer is None else _of_folder(script, importer)
    sys.argv[0] = loaded.argument
    module = types.ModuleType("__main__")
    vars(module).update({"__annotations__": {}, "__builtins__": builtins} | loaded.names)
    sys.modules["__main__"] = module
    execute(loaded.code, vars(module))


def execute(code: types.CodeType, namespace: dict[str, Any]) -> None:
    """Execute a program; tracebacks that are shown begin below this function."""
    exec(code, namespace)


def _put_first(folder: str, always: bool = False) -> None:
    """Put a folder first on the path, in the place of that of the command; without such a place (``-P``) only if ``always``."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return ""


def _absolute(path: str) -> str:
    """Return a path as Python makes it absolute: dots and links stay."""
    return os.path.join(_working_folder(), path)


def _of_file(script: str) -> Loaded:
    path = _absolute(script)
    loader: SourceFileLoader | SourcelessFileLoader = SourceFileLoader("__main__", path)
    try:
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", path)
            compiled = loader.get_code("__main__")
            assert compiled is not None
            code = compiled
        else:
            code = _compiled(Path(path).read_bytes(), path)
    except OSError as error:
        raise click.ClickException(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from None
    names = {"__file__": path, "__cached__": None, "__loader__": loader, "__package__": None, "__spec__": None}
    return Loaded(code, script, names)


def _compiled(source: bytes, path: str) -> types.CodeType:
    """Compile a file; the error for bytes that are no UTF-8 is worded as that of ``python FILE``."""
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        lines = source.split(b"\n")
        if not any(map(_COOKIE.match, lines[:2])):
            for number, line in enumerate(lines, 1):
                _check_utf8(line, number, path)
        raise


def _check_utf8(line: bytes, number: int, path: str) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise SyntaxError(
            f"Non-UTF-8 code starting with '\\x{line[error.start]:02x}' in file {path} on line {number}, but no encoding "
            "declared; see https://peps.python.org/pep-0263/ for details"
        ) from None


def _of_folder(script: str, importer: Any) -> Loaded:
    """Load the ``__main__`` of a folder or a zip file."""
    spec = importer.find_spec("__main__")
    if spec is None or spec.loader is None:
        raise click.ClickException(f"can't find '__main__' module in {_absolute(script)!r}")
    return Loaded(_code_of(spec), script, _names_of(spec, ""))


def _of_module(name: str) -> Loaded:
    spec = _found(name)
    if spec is not None and spec.submodule_search_locations is not None:
        package, spec = name, _found(f"{name}.__main__")
        if spec is None:
            raise click.ClickException(
                f"No module named {package}.__main__; {package!r} is a package and cannot be directly executed"
            )
    if spec is None:
        raise click.ClickException(f"No module named {name}")
    if spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise click.ClickException(f"{name} is no module that has Python code")
    return Loaded(_code_of(spec), spec.origin or name, _names_of(spec, spec.parent))


def _found(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package of the program imports what is not there
        raise click.ClickException(
            f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})"
        ) from None


def _code_of(spec: ModuleSpec) -> types.CodeType:
    assert spec.loader is not None
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        raise click.ClickException(f"No code object available for {spec.name}")
    assert isinstance(code, types.CodeType)
    return code


def _names_of(spec: ModuleSpec, package: str | None) -> dict[str, Any]:
    return {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": package,
        "__spec__": spec,
    }
