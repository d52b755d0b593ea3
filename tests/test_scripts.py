"""Benchmarks, scripts and examples use names of Funken that exist, with arguments that fit; nothing of them runs here."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "scripts", "examples")


def scripts() -> list[Path]:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [path for path in paths if ".envs" not in path.parts]  # the environments of other systems


class Uses(ast.NodeVisitor):
    """Resolve what a script imports from Funken, the attributes it takes of modules and classes, and its calls of them."""

    def __init__(self, tree: ast.Module) -> None:
        self._known: dict[str, object] = {}
        self._bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_written(node)}
        self._bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.faults: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
        self.visit(tree)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "funken":
                    module = self._attempt(node, lambda name=alias.name: import_module(name))
                    self._known[alias.asname or "funken"] = module if alias.asname else import_module("funken")
        elif node.level == 0 and (node.module or "").split(".")[0] == "funken":
            module = self._attempt(node, lambda: import_module(str(node.module)))
            for alias in node.names if module else ():
                self._known[alias.asname or alias.name] = self._attempt(
                    node, lambda module=module, name=alias.name: _member(module, name)
                )

    def _attempt(self, node, resolve):
        try:
            return resolve()
        except (AttributeError, ImportError) as error:
            if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("funken"):
                return None  # a package that is not installed
            self.faults.append(f"{node.lineno}: {error}")
            return None

    def _object(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name) and node.id not in self._bound:
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            if isinstance(owner, (ModuleType, type)):
                return self._attempt(node, lambda: _member(owner, node.attr))
        return None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):  # a script may set an attribute of its own
            self._object(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._object(node.func)
        if isinstance(called, type) or inspect.isroutine(called):
            self._check_arguments(node, called)
        self.generic_visit(node)

    def _check_arguments(self, node: ast.Call, called) -> None:
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            return
        try:
            signature = inspect.signature(called)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*node.args, **{str(one.arg): one for one in node.keywords})
        except TypeError as error:
            self.faults.append(f"{node.lineno}: {ast.unparse(node.func)}(): {error}")


def _is_written(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _member(owner, name: str) -> object:
    """Return a name of a module or class: an attribute, a submodule, a declared field without a default."""
    if isinstance(owner, ModuleType) and not hasattr(owner, name):
        return import_module(f"{owner.__name__}.{name}")
    if isinstance(owner, type) and any(name in vars(base).get("__annotations__", ()) for base in owner.__mro__):
        return getattr(owner, name, None)
    return getattr(owner, name)


def faults_of(text: str) -> list[str]:
    return list(dict.fromkeys(Uses(ast.parse(text)).faults))


@pytest.mark.parametrize("path", scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_uses_names_that_exist(path):
    assert not faults_of(path.read_text())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from funken.timing.clocks import SystemClock", "No module named 'funken.timing.clocks'"),
        ("from funken.timing.clock import SystemClocks", "SystemClocks"),
        ("import funken\nfunken.StreamEnvironment", "StreamEnvironment"),
        ("from funken import TimeWindow\nTimeWindow.highest()", "highest"),
        ("from funken import TimeWindow\nTimeWindow(1, 2, 3, 4)", "too many positional arguments"),
        ("def f():\n    from funken import config\n    return config.nothing.deep", "nothing"),
    ],
)
def test_a_name_that_moved_is_a_fault(text, fault):
    (found,) = faults_of(text)

    assert fault in found


def names_of(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Name) and _is_written(node):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def imports_of_siblings(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each import from a module of the script's tree, and the names of all modules so called: scripts set ``sys.path``."""
    top = ROOT / path.relative_to(ROOT).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            name = f"{node.module.replace('.', '/')}.py"
            files = [file for file in scripts() if file.is_relative_to(top) and file.as_posix().endswith(f"/{name}")]
            for alias in node.names if files else ():
                yield (
                    f"{node.lineno}: {alias.name} of {node.module}",
                    {f"{node.lineno}: {name} of {node.module}" for file in files for name in names_of(file)},
                )


@pytest.mark.parametrize("path", scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_imports_names_that_its_siblings_have(path):
    assert not [wanted for wanted, there in imports_of_siblings(path) if wanted not in there]
