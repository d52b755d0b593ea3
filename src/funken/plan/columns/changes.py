"""Variables that functions of one program change: a function that uses one of them sees each change at once, record by record.

On columns, a function is asked once for a block whether its variables are what they were. So what another function of the program
assigns (a global, an attribute of a module or class, a variable of an enclosing function) or changes in place (a list, a dict)
is not read as a constant. Functions are looked at, not run; what goes through ``setattr`` or another thread is not seen, and
the change counts from the next block on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import names_changed
from funken.columnar.dependencies import Dependency, InlinedFunction
from funken.columnar.expressions import NotVectorizable
from funken.operators.user_functions import UserFunction
from funken.plan.physical import PhysicalPlan

_DEEPEST = 6


class ProgramChanges:
    """What the functions of a plan change: names they assign, and names of what they change in place."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._assigned: dict[str, str] = {}
        self._changed: dict[str, str] = {}
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        for function in _functions([*(node.spec for node in plan.nodes), *(edge.partitioning for edge in plan.edges)]):
            self._look_at(function)

    def check(self, spec: Any) -> None:
        """Raise ``NotVectorizable`` if functions that were read use what another one changes."""
        for each in _dependencies(spec, set()):
            self._check(each)

    def _check(self, used: Dependency) -> None:
        if isinstance(used.value, InlinedFunction):
            for each in used.value.dependencies:
                self._check(each)
        if used.kind not in ("global", "closure", "attribute"):
            return
        name = used.name.rpartition(".")[2]
        changes = self._assigned.get(name)
        if changes is None and type(used.value) in (list, dict, set):
            changes = self._changed.get(name)
        if changes is not None:
            raise NotVectorizable(f"uses {name!r}, which {changes}() changes")

    def _look_at(self, function: FunctionType, depth: int = 0) -> None:
        code = function.__code__
        if id(code) in self._seen or depth > _DEEPEST:
            return
        self._seen.add(id(code))
        self._kept.append(code)
        for inner in _codes(code):
            self._look_into(inner, function.__qualname__)
        names = {name for inner in _codes(code) for name in inner.co_names}
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        for called in [*(function.__globals__.get(name) for name in names), *cells]:
            if type(called) is FunctionType and not _is_ours(called):
                self._look_at(called, depth + 1)

    def _look_into(self, code: CodeType, function: str) -> None:
        assigned, changed = names_changed(code)
        for name in assigned:
            self._assigned.setdefault(name, function)
        for name in changed:
            self._changed.setdefault(name, function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_ours(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "funken"


def _functions(parts: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the functions of the program that specs have, and the methods of its objects."""
    seen: set[int] = set()
    todo = list(parts)
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, FunctionType):
            if not _is_ours(part):
                yield part
        elif isinstance(part, MethodType):
            todo += [part.__func__, part.__self__]
        elif isinstance(part, UserFunction):
            todo.append(part.target)
        elif isinstance(part, tuple | list):
            todo += part
        elif isinstance(part, type | ModuleType | BuiltinFunctionType | str | int | float | bytes) or part is None:
            continue
        elif type(part).__module__.partition(".")[0] == "funken":
            todo += getattr(part, "__dict__", {}).values()
        else:
            for cls in type(part).__mro__:
                if cls.__module__.partition(".")[0] not in ("funken", "builtins", "abc", "typing"):
                    todo += [
                        each
                        for name, each in vars(cls).items()
                        if isinstance(each, FunctionType) and name != "__init__"
                    ]
            todo += [each for each in getattr(part, "__dict__", {}).values() if callable(each)]


def _dependencies(part: Any, seen: set[int]) -> Iterator[Dependency]:
    """Yield what the functions use that were read for a spec."""
    if isinstance(part, Dependency):
        yield part
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _dependencies(each, seen)
    elif type(part).__module__.startswith("funken.") and not isinstance(part, UserFunction) and id(part) not in seen:
        seen.add(id(part))
        for each in getattr(part, "__dict__", {}).values():
            yield from _dependencies(each, seen)


__all__ = ["ProgramChanges"]
