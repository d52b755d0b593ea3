"""The stub of the variants: classes of Funken whose methods return PyFlink's classes (``adoption.py``).

At run time a variant adopts the results of inherited methods; a checker reads this in the stub, where each such method is
declared again, with its own parameters and a variant as its result. Names are written with their modules.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

from funken.compat.pyflink.adoption import variants
from funken.types.callables import Generic

MODULE = "pyflink._variants"
"""The module of the stub."""
_DECORATORS = {"overload", "staticmethod", "classmethod", "property"}


def text() -> str:
    """Return the text of the stub.

    >>> from funken.compat.pyflink import streams
    >>> [line for line in text().splitlines() if line.startswith("class KeyedStream(")]
    ['class KeyedStream(funken.api.streams.keyed.KeyedStream[T_co, K_co], DataStream[T_co], typing.Generic[T_co, K_co]):']
    """
    stub = _Stub()
    classes = [line for native, variant in variants().items() for line in stub.class_of(native, variant)]
    imports = [f"import {name}" for name in sorted(stub.modules)]
    imports += [f"from {module} import {name} as {name}" for name, module in sorted(stub.variables.items())]
    return "\n".join(
        [
            "# mypy: ignore-errors",
            "# pyright: basic, reportIncompatibleMethodOverride=false, reportGeneralTypeIssues=false",
            *imports,
            *classes,
            "",
        ]
    )


class _Stub:
    """The classes, and the modules and type variables that they name."""

    def __init__(self) -> None:
        self.modules = {"typing"}
        self.variables: dict[str, str] = {}

    def class_of(self, native: type, variant: type) -> Iterator[str]:
        """Yield the lines of a variant: its parameters, and the methods that are not as Funken's are."""
        bases = [_qualified(variant if variant.__name__ in _classes(variant.__module__) else native)]
        if Generic in native.__mro__:
            written = next(each for each in reversed(_node(native).bases) if isinstance(each, ast.Subscript))
            parameters = (
                ast.unparse(_Names(self, native.__module__, results=False).visit(written.slice)).strip("()") + "]"
            )
            bases = [f"{_qualified(native)}[{parameters}", f"typing.Generic[{parameters}"]
            above = [each for each in variant.__mro__[1:] if each in set(variants().values())]
            bases[1:1] = [f"{each.__name__}[T_co]" for each in above]
        self.modules.add(native.__module__)
        self.modules.add(variant.__module__)
        yield f"class {variant.__name__}({', '.join(bases)}):"
        yield f'    """{(variant.__doc__ or "").strip().splitlines()[0]}"""'
        for owner, functions in self._methods(native, variant):
            for function in functions:
                yield from (f"    {line}" for line in self._declared(owner, function).splitlines())

    def _methods(self, native: type, variant: type) -> Iterator[tuple[str, list[ast.FunctionDef]]]:
        """Yield the methods to declare, each with the module that defines it."""
        generic = Generic in native.__mro__
        for name in sorted({name for owner in variant.__mro__ for name in vars(owner) if not name.startswith("_")}):
            found = [(owner, _functions(owner).get(name, [])) for owner in variant.__mro__ if name in vars(owner)]
            found = [(owner, functions) for owner, functions in found if functions]
            own = [each for each in found if not issubclass(native, each[0])]
            inherited = [each for each in found if issubclass(native, each[0])]
            same = inherited and own and _parameters(own[0][1]) == _parameters(inherited[0][1])
            if inherited and (not own or (generic and same and not _says_more(own[0][1], inherited[0][1]))):
                owner, functions = inherited[0]
            elif own:
                owner, functions = own[0]
            else:
                continue
            read = not generic and not inherited  # in the class itself, which is the base
            known = owner in native.__mro__ or read
            if not known or any(self._returns_variant(owner, each) for each in functions):
                overloads = [each for each in functions if "overload" in map(ast.unparse, each.decorator_list)]
                yield owner.__module__, overloads or functions

    def _returns_variant(self, owner: type, function: ast.FunctionDef) -> bool:
        results = _Names(self, owner.__module__, results=True).visit(_copy(function.returns))
        given = _Names(self, owner.__module__, results=False).visit(_copy(function.returns))
        return ast.unparse(results) != ast.unparse(given)

    def _declared(self, module: str, function: ast.FunctionDef) -> str:
        """Return the text of a method without its body."""
        copied = ast.parse(ast.unparse(function)).body[0]
        assert isinstance(copied, ast.FunctionDef)
        copied.decorator_list = [each for each in copied.decorator_list if ast.unparse(each) in _DECORATORS]
        given, results = _Names(self, module, results=False), _Names(self, module, results=True)
        copied.args = given.visit(copied.args)
        copied.returns = results.visit(_copy(copied.returns))
        copied.decorator_list = [given.visit(each) for each in copied.decorator_list]
        summary = (ast.get_docstring(copied) or "").partition("\n")[0]
        copied.body = [ast.Expr(ast.Constant(summary or ...))]
        return ast.unparse(copied)


class _Names(ast.NodeTransformer):
    """Writes names with their modules; in a result, those of classes that have a variant become the variant's."""

    def __init__(self, stub: _Stub, module: str, results: bool) -> None:
        self._stub = stub
        self._module = module
        self._results = results

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Qualify a name."""
        found = _object(self._module, node.id)
        if isinstance(found, TypeVar):
            self._stub.variables[node.id] = "funken.types.callables"
            return node
        variant = _variant(found)
        if variant is not None and self._results:
            return ast.Name(variant.__name__)
        origin = _origins(self._module).get(node.id)
        if origin is None:
            return node
        self._stub.modules.add(origin.rpartition(".")[0] if not isinstance(found, ModuleType) else origin)
        written = ast.parse(origin, mode="eval").body
        return written

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Qualify a name of a module."""
        owner = _object(self._module, node.value.id) if isinstance(node.value, ast.Name) else None
        variant = _variant(getattr(owner, node.attr, None)) if isinstance(owner, ModuleType) else None
        if variant is not None and self._results:
            return ast.Name(variant.__name__)
        node.value = self.visit(node.value)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Leave defaults out: a stub says only that there is one."""
        node.defaults = [ast.Constant(...) for _ in node.defaults]
        node.kw_defaults = [None if each is None else ast.Constant(...) for each in node.kw_defaults]
        self.generic_visit(node)
        return node


def _copy(annotation: ast.expr | None) -> ast.expr:
    return ast.parse("None" if annotation is None else ast.unparse(annotation), mode="eval").body


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def _parameters(functions: list[ast.FunctionDef]) -> list[str]:
    arguments = functions[-1].args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _says_more(own: list[ast.FunctionDef], inherited: list[ast.FunctionDef]) -> bool:
    """Return True if a method gives a class of its own as an argument of the type of its results."""
    given, others = (
        [each for each in ast.walk(functions[-1].returns or ast.Constant(None)) if isinstance(each, ast.Subscript)]
        for functions in (own, inherited)
    )
    texts = [{ast.unparse(each.slice) for each in found} for found in (given, others)]
    return bool(texts[0]) and "Any" not in ast.unparse(own[-1].returns or ast.Constant(None)) and texts[0] != texts[1]


def _variant(found: object) -> type | None:
    """Return the variant that a class has, or is."""
    if not isinstance(found, type):
        return None
    return variants().get(found, found if found in set(variants().values()) else None)


def _object(module: str, name: str) -> Any:
    """Return the object that a name in a signature stands for; None if there is none at run time."""
    origin = _origins(module).get(name)
    if origin is None:
        return None
    owner, _, last = origin.rpartition(".")
    try:
        return getattr(importlib.import_module(owner), last) if owner else importlib.import_module(last)
    except (AttributeError, ImportError):
        return None


@cache
def _origins(module: str) -> dict[str, str]:
    """Return the names of a module, with those that they are imported from; imports for checkers only are among them."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.asname or each.name: each.name for each in node.names}
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node in [*body, *(each for part in body if isinstance(part, ast.If) for each in part.body)]:
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: f"{module}.{each.id}" for each in targets if isinstance(each, ast.Name)}
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    return {each.name: each for each in body if isinstance(each, ast.ClassDef)}


def _node(cls: type) -> ast.ClassDef:
    return _classes(cls.__module__)[cls.__name__]


def _functions(cls: type) -> dict[str, list[ast.FunctionDef]]:
    """Return the methods that the text of a class defines; none of a class that is made without a text."""
    found: dict[str, list[ast.FunctionDef]] = {}
    if cls.__module__.startswith("funken.") and cls.__name__ in _classes(cls.__module__):
        for each in _node(cls).body:
            if isinstance(each, ast.FunctionDef):
                found.setdefault(each.name, []).append(each)
    return found
