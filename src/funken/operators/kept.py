"""State that a function keeps outside Flink's state: in attributes, globals, closures, classes and default values.

The source of a function is read once, when it is opened, as the path of a record: in the order of its lines, with the methods
and functions of the program that it calls. A change is warned of if it remembers records, and if results depend on it. These
stay silent: caches, and objects that are made when they are missed; buffers that ``close()`` empties; counts that are only
logged; objects that each record begins anew; functions with ``snapshot_state()``.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any

from funken.dataclass import dataclass
from funken.operators.sources import Definition, tree_of

_COLLECTIONS = (list, dict, set, bytearray, deque)
_GROW_ITEMS = {"append", "appendleft", "extend", "insert"}
_GROWS = _GROW_ITEMS | {"add", "update", "setdefault"}
_GETS = {"get", "setdefault", "pop", "popleft", "popitem", "items", "values"}
_PUSHES = {"heappush", "heappushpop", "insort", "insort_left", "insort_right"}
_TIMERS = {"register_event_time_timer", "register_processing_time_timer"}
_EMITS = {"collect", "output", "update", "put", "put_all", "add", "add_all"} | _TIMERS
_UNKNOWN: Any = object()
_DEPTH = 4
_OWN = "self"
GLOBALS = "global variables"
PER_RECORD = ("process_element", "process_element1", "process_element2", "map1", "map2", "flat_map1", "flat_map2")
"""The methods that get records; those for broadcast records are not among them."""


@dataclass
class _Event:
    """A place where a value is read or changed.

    Reads are of an ``item`` of a collection, a ``member`` (with ``in``), or the ``whole``; changes ``assign``, set a ``key``,
    or make ``more`` of what was there before.
    """

    holder: str
    kind: str
    entry: str
    #: of a read: a result depends on it; of a change: it depends on the record
    counts: bool
    #: of a change: not every record makes it; its value is made by a call, and only where it is missed
    conditional: bool = False
    is_made: bool = False
    function: str = ""
    place: str = ""


@dataclass
class _Scope:
    """The names around a function, as they are when it is opened."""

    function: FunctionType
    target: Any
    prefix: str = _OWN

    @cached_property
    def outer(self) -> Mapping[str, Any]:
        """Globals, variables of enclosing functions, and default values that can change."""
        code, defaults = self.function.__code__, self.function.__defaults__ or ()
        cells = zip(code.co_freevars, self.function.__closure__ or (), strict=False)
        given = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        return {
            **self.function.__globals__,
            **{name: _content(cell) for name, cell in cells},
            **{name: value for name, value in zip(given, defaults, strict=True) if isinstance(value, _COLLECTIONS)},
        }


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not assigned yet
        return _UNKNOWN


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute; no property is called."""
    found = _UNKNOWN if owner is _UNKNOWN else inspect.getattr_static(owner, name, _UNKNOWN)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _is_of_program(function: FunctionType) -> bool:
    module = function.__module__ or ""
    return (
        not module.startswith("funken.")
        and "site-packages" not in function.__code__.co_filename
        and (module.partition(".")[0] not in sys.stdlib_module_names or module == "__main__")
    )


def kept_outside(target: Any, calls: Collection[Callable[..., Any]], keyed: bool) -> Iterator[tuple[str, str]]:
    """Yield the warnings for what the functions of an operator keep, as category and text, one of each category.

    >>> seen = []
    >>> def remember(value):
    ...     seen.append(value)
    ...     return value
    >>> remember.__module__ = "job"
    >>> [text] = dict(kept_outside(remember, [remember], False)).values()
    >>> "changes 'seen', of which each worker has a copy" in text
    True
    """
    if hasattr(target, "snapshot_state"):
        return
    events: list[_Event] = []
    for call in calls:
        function = getattr(call, "__func__", call)
        if isinstance(function, FunctionType) and _is_of_program(function):
            _Path(_Scope(function, getattr(call, "__self__", None)), events, function.__name__).read()
    said = set()
    for at, event in enumerate(events):
        kind = "attributes" if "." in event.holder else GLOBALS
        if event.place and kind not in said and _matters(at, events) and not _is_emptied(target, event.holder):
            said.add(kind)
            yield kind, _text(event, keyed)


def _text(event: _Event, keyed: bool) -> str:
    remedy = "Keep it in a state: key_by(), and get_state() in open() of a KeyedProcessFunction."
    fact = f"changes {event.holder}, of which each subtask has its own, and no checkpoint"
    if keyed:
        fact = f"changes {event.holder}, which all keys of a subtask share, and no checkpoint has"
        remedy = "Keep it per key in a state: get_state() in open()."
    if "." not in event.holder:
        fact = f"changes {event.holder!r}, of which each worker has a copy, and no checkpoint: the program's own stays as it is"
        remedy = "Emit the value, keep it in a state (key_by() and a KeyedProcessFunction), or count with a metric."
    return f"its function {event.function!r} ({event.place}) {fact}. {remedy}"


def _matters(at: int, events: Sequence[_Event]) -> bool:
    """Return True if a change remembers records, and a result depends on it."""
    write = events[at]
    of_holder = [(place, each) for place, each in enumerate(events) if _same(each.holder, write.holder)]
    first = of_holder[0][1]
    if first.kind == "assign" and first.place and not first.conditional:
        return False  # each record begins anew
    live = [(place, each) for place, each in of_holder if not each.place and each.counts]
    if write.kind == "more":
        return bool(live) or "." not in write.holder
    has_items = any(each.kind == "item" for _, each in live)
    if not write.counts or (write.is_made and (write.kind == "assign" or has_items)):
        return False
    if write.kind == "assign" and "." not in write.holder:
        return True
    return any(
        place < at or each.entry != write.entry or write.conditional or (write.kind == "key" and each.kind != "item")
        for place, each in live
    )


def _same(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _is_emptied(target: Any, holder: str) -> bool:
    """Return True if a function reads an attribute when it is closed."""
    own, _, name = holder.partition(".")
    closing = [getattr(type(target), each, None) for each in ("close", "finish", "teardown")]
    codes = [each.__code__ for each in closing if isinstance(each, FunctionType) and _is_of_program(each)]
    return own == _OWN and any(
        name.partition(".")[0] in code.co_names and "clear" not in code.co_names for code in codes
    )


@dataclass
class _Path(ast.NodeVisitor):
    """Reads one function, and those that it calls."""

    scope: _Scope
    events: list[_Event]
    entry: str
    depth: int = 0
    called: frozenset[Any] = frozenset()
    #: the function is called for some records only
    conditional: bool = False
    own: str | None = None
    #: local variables: what they stand for, what was read for them, those of the record, and those that a call made
    aliases: dict[str, tuple[str, bool]] = field(default_factory=dict)
    derived: dict[str, set[str]] = field(default_factory=dict)
    of_record: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    guards: list[set[str]] = field(default_factory=list)
    live: set[ast.AST] = field(default_factory=set)
    is_live: bool = False

    def read(self) -> None:
        """Read the function."""
        function = self.scope.function
        tree = tree_of(function.__code__)
        if tree is None:
            return
        names = [each.arg for each in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
        self.own = names[0] if names and self.scope.target is not None else None
        self.of_record = {*names} - {self.own}
        shared = {name for each in ast.walk(tree) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
        defaults = {each for each in names if each in self.scope.outer and each in function.__code__.co_varnames}
        defaults = {
            each for each in defaults if isinstance(self.scope.outer[each], _COLLECTIONS) and function.__defaults__
        }
        local = {*names, *(each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and _is_stored(each))}
        self.assigned = local - shared - defaults
        self.of_record -= defaults
        self.live = _live(tree, self)
        self._block([ast.Return(tree.body)] if isinstance(tree, ast.Lambda) else tree.body)

    # ---- what an expression stands for

    def value(self, node: ast.AST) -> Any:
        """Return the object of an expression of names and attributes."""
        if isinstance(node, ast.Name):
            outer = _UNKNOWN if node.id in self.assigned else self.scope.outer.get(node.id, _UNKNOWN)
            return self.scope.target if node.id == self.own else outer
        return _attribute(self.value(node.value), node.attr) if isinstance(node, ast.Attribute) else _UNKNOWN

    def holder(self, node: ast.AST) -> tuple[str, bool] | None:
        """Return the attribute or name that an expression reads or changes, and True for an item of it."""
        if isinstance(node, ast.Name):
            is_outer = node.id in self.scope.outer and node.id not in self.assigned
            return (node.id, False) if is_outer else self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            if self._is_own(node.value):
                return f"{self.scope.prefix}.{node.attr}", False
            found = self.holder(node.value)
            if found is None or found[1] or isinstance(self.value(node.value), ModuleType):
                return found if found is not None and found[1] else None
            return f"{found[0]}.{node.attr}", False
        if isinstance(node, ast.Subscript):
            if self._is_dict_of_own(node.value) and isinstance(node.slice, ast.Constant):
                return f"{self.scope.prefix}.{node.slice.value!s}", False
            found = self.holder(node.value)
            return None if found is None else (found[0], True)
        return self._holder_of_call(node) if isinstance(node, ast.Call) else None

    def _holder_of_call(self, node: ast.Call) -> tuple[str, bool] | None:
        name = _called(node)
        match name, node.args:
            case "getattr", [owner, ast.Constant(value=str(attribute)), *_]:
                return self.holder(ast.Attribute(owner, attribute))
        if not isinstance(node.func, ast.Attribute) or name not in _GETS:
            return None
        if self._is_dict_of_own(node.func.value) and node.args and isinstance(node.args[0], ast.Constant):
            return f"{self.scope.prefix}.{node.args[0].value!s}", False
        found = self.holder(node.func.value)
        return None if found is None or not self._is_collection(node.func.value) else (found[0], True)

    def _is_own(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and _called(node) == "type" and node.args:
            node = node.args[0]  # type(self).count
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            node = node.value
        is_class = (
            isinstance(node, ast.Name) and node.id not in self.assigned and self.value(node) is type(self.scope.target)
        )
        return self.own is not None and (is_class or (isinstance(node, ast.Name) and node.id == self.own))

    def _is_dict_of_own(self, node: ast.AST) -> bool:
        of_vars = isinstance(node, ast.Call) and _called(node) == "vars" and node.args and self._is_own(node.args[0])
        return bool(of_vars) or (
            isinstance(node, ast.Attribute) and node.attr == "__dict__" and self._is_own(node.value)
        )

    def _is_collection(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and node.id in self.aliases:
            return True
        return isinstance(self.value(node), _COLLECTIONS)

    # ---- reads

    def visit(self, node: ast.AST) -> None:
        """Visit a node; what is within a result is a result, too."""
        before, self.is_live = self.is_live, self.is_live or node in self.live
        super().visit(node)
        self.is_live = before

    def _note(self, node: ast.AST, kind: str | None = None) -> bool:
        """Note a read, if an expression is one."""
        found = self.holder(node)
        if found is not None and not (isinstance(node, ast.Name) and node.id in self.aliases and kind is None):
            self.events.append(_Event(found[0], kind or ("item" if found[1] else "whole"), self.entry, self.is_live))
        return found is not None

    def visit_Name(self, node: ast.Name) -> None:
        """Note a read."""
        if isinstance(node.ctx, ast.Load):
            self._note(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note a read of the whole chain."""
        if not (isinstance(node.ctx, ast.Load) and self._note(node)):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Note a read of an item."""
        if isinstance(node.ctx, ast.Load) and self._note(node):
            self.visit(node.slice)
        else:
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Note members."""
        self.visit(node.left)
        for sign, each in zip(node.ops, node.comparators, strict=True):
            if not (isinstance(sign, ast.In | ast.NotIn) and self._note(each, "member")):
                self.visit(each)

    def visit_Call(self, node: ast.Call) -> None:
        """Note changes in place, and read the functions of the program."""
        name, holder = _called(node), getattr(node.func, "value", None)
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(each)
        found = None if holder is None or name not in _GROWS else self.holder(holder)
        if holder is not None and found and (name in _GROW_ITEMS if found[1] else self._is_collection(holder)):
            self._grow(node, name, found[0])
            return
        first = self.holder(node.args[0]) if node.args else None
        if first and (name in _PUSHES or (name == "next" and isinstance(self.value(node.args[0]), Iterator))):
            self._write(node, first[0], "more", node.args)
        match name, node.args:
            case "setattr", [owner, ast.Constant(value=str(attribute)), value] if self._is_own(owner):
                self._write(node, f"{self.scope.prefix}.{attribute}", "assign", [value])
        if not self._note(node) and not self._follow(node):
            self.visit(node.func)

    def _grow(self, node: ast.Call, name: str, holder: str) -> None:
        if name == "setdefault":
            self.guards.append({holder})
            self._write(node, holder, "key", node.args[1:], node.args[0])
            self.guards.pop()
            self._note(node)
        else:
            self._write(node, holder, "more", node.args)
        if self.is_live and name == "add":  # seen.add(x), which is None, joined by or
            self.events.append(_Event(holder, "member", self.entry, True))

    def _follow(self, node: ast.Call) -> bool:
        """Read a function of the program, or a method of an object that it has."""
        function: Any = self.value(node.func)
        target: Any = None
        prefix = ""
        if isinstance(function, MethodType):
            function, target = function.__func__, function.__self__
        elif isinstance(node.func, ast.Attribute):
            target, found = self.value(node.func.value), self.holder(node.func.value)
            if isinstance(target, ModuleType) or target is _UNKNOWN:
                target = None
            prefix = self.scope.prefix if self._is_own(node.func.value) else found[0] if found else ""
        if not isinstance(function, FunctionType) or not _is_of_program(function):
            return False
        if self.depth < _DEPTH and function.__code__ not in self.called and (target is None or prefix):
            called = self.called | {function.__code__}
            scope = _Scope(function, target, prefix or _OWN)
            conditional = self.conditional or bool(self.guards)
            _Path(scope, self.events, self.entry, self.depth + 1, called, conditional).read()
        return True

    # ---- changes

    def _write(
        self, node: ast.AST, holder: str, kind: str, values: Sequence[ast.AST], key: ast.AST | None = None
    ) -> None:
        of_key = kind == "key" and key is not None and all(self._depends_on(key, value) for value in values)
        values = values if key is None else [*values, key]
        names = {each.id for value in values for each in ast.walk(value) if isinstance(each, ast.Name)}
        nodes = [each for value in values for each in ast.walk(value)]
        read = {found[0] for each in nodes if (found := self.holder(each)) is not None}
        read |= {each for name in names for each in self.derived.get(name, ())}
        guarded = any(_same(holder, each) for guard in self.guards for each in guard)
        falls_back = any(isinstance(each, ast.BoolOp) and isinstance(each.op, ast.Or) for each in nodes)
        is_made = bool(self.made & names) or any(isinstance(each, ast.Call) and not self._gets(each) for each in nodes)
        counts = bool(self.of_record & names)
        changes = counts or kind == "key" or any(isinstance(each, ast.BinOp | ast.UnaryOp) for each in nodes)
        if kind != "more" and holder in read and changes and not (falls_back and is_made):
            kind = "more"
        code = self.scope.function.__code__
        place = f"{os.path.basename(code.co_filename)}, line {node.lineno}"  # type: ignore[attr-defined]
        conditional = self.conditional or bool(self.guards)
        made = (is_made or of_key) and (guarded or falls_back)
        self.events.append(_Event(holder, kind, self.entry, counts, conditional, made, code.co_name, place))

    def _depends_on(self, key: ast.AST, node: ast.AST) -> bool:
        """Return True if a value depends on nothing of the record but a key: a cache has such values."""
        parts = {ast.dump(each) for each in (key, *(key.elts if isinstance(key, ast.Tuple) else ()))}
        if ast.dump(node) in parts:
            return True
        if isinstance(node, ast.Name) and node.id in self.of_record:
            return False
        return self.holder(node) is None and all(self._depends_on(key, each) for each in ast.iter_child_nodes(node))

    def _gets(self, node: ast.Call) -> bool:
        """Return True for a call that only reads, as ``record.get("a")`` and ``ctx.timestamp()``."""
        return _called(node) in (
            *_GETS,
            "getattr",
            "timestamp",
            "get_current_key",
            "len",
            "int",
            "float",
            "str",
            "max",
            "min",
        )

    def _assign(self, target: ast.expr, value: ast.expr, kind: str = "assign") -> None:
        if isinstance(target, ast.Tuple | ast.List):
            pairs = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for at, each in enumerate(target.elts):
                self._assign(each, pairs[at] if pairs else value, kind)
            return
        is_local = isinstance(target, ast.Name) and target.id in self.assigned
        found = None if is_local else self.holder(target)
        if isinstance(target, ast.Name) and is_local:
            self._assign_local(target.id, value)
        elif found is not None and (found[1] is False or self._is_state(target)):
            if isinstance(target, ast.Subscript):
                self.visit(target.slice)
            keyed = found[1] and kind == "assign"
            key = target.slice if isinstance(target, ast.Subscript) else None
            self._write(target, found[0], "key" if keyed else kind, [value], key)

    def _is_state(self, target: ast.expr) -> bool:
        """Return True if the object whose item or attribute is set is a collection, or unknown as an item of one."""
        holder = target.value if isinstance(target, ast.Subscript | ast.Attribute) else target
        return self._is_collection(holder) or isinstance(holder, ast.Subscript | ast.Call | ast.Name)

    def _assign_local(self, name: str, value: ast.expr) -> None:
        names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        read = {found[0] for each in ast.walk(value) if (found := self.holder(each)) is not None}
        read |= {each for other in names for each in self.derived.get(other, ())}
        found, is_record = self.holder(value), bool(self.of_record & names)
        is_made = any(isinstance(each, ast.Call) and not self._gets(each) for each in ast.walk(value))
        self.derived[name] = read
        (self.of_record.add if is_record else self.of_record.discard)(name)
        (self.made.add if is_made or self.made & names else self.made.discard)(name)
        self.aliases.pop(name, None)
        if found is not None:
            self.aliases[name] = found

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note changes."""
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Note changes."""
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Note variables."""
        self.visit(node.value)
        self._assign(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Note changes."""
        self.visit(node.value)
        if isinstance(node.target, ast.Name) and node.target.id in self.assigned:
            self.aliases.pop(node.target.id, None)
        else:
            self._assign(node.target, node.value, "more")

    # ---- branches

    def visit_If(self, node: ast.If) -> None:
        """Read the branches under their condition."""
        self.visit(node.test)
        self._branches(self._holders(node.test), node.body, node.orelse)

    def visit_For(self, node: ast.For) -> None:
        """Read a loop."""
        self.visit(node.iter)
        self._assign(node.target, node.iter)
        self._branches(set(), node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """Read a loop."""
        self.visit(node.test)
        self._branches(self._holders(node.test), node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        """Read a block, and its handlers under the condition that it failed."""
        self._block(node.body)
        tried = {each for part in node.body for each in self._holders(part)}
        self._branches(tried, *(each.body for each in node.handlers), node.orelse)
        self._block(node.finalbody)

    def _branches(self, guard: set[str], *blocks: list[ast.stmt]) -> None:
        self.guards.append(guard)
        for block in blocks:
            self._block(block)
        self.guards.pop()

    def _block(self, body: Sequence[ast.stmt]) -> None:
        """Read statements; those behind a branch that ends the function depend on its condition."""
        before = len(self.guards)
        for each in body:
            self.visit(each)
            if isinstance(each, ast.If | ast.Try) and isinstance(each.body[-1], _STOPS):
                test = [each.test] if isinstance(each, ast.If) else each.body
                self.guards.append({holder for part in test for holder in self._holders(part)})
        del self.guards[before:]

    def _holders(self, test: ast.AST) -> set[str]:
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        read = {found[0] for each in ast.walk(test) if (found := self.holder(each)) is not None}
        return read | {each for name in names for each in self.derived.get(name, ())}


_STOPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _live(tree: Definition, path: _Path) -> set[ast.AST]:
    """Return the expressions that results depend on: those that are results, and then those behind their variables."""
    if isinstance(tree, ast.Lambda):
        return {tree.body}
    nodes = [each for part in tree.body for each in ast.walk(part)]
    live: set[ast.AST] = {
        each.value for each in nodes if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) and each.value
    }
    emits = [each for each in nodes if isinstance(each, ast.Call) and _called(each) in _EMITS and _is_emit(each, path)]
    live |= {argument for each in emits for argument in each.args}
    if not live:
        return live
    ends: set[ast.AST] = {*emits}
    ends |= {
        each for each in nodes if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom | ast.Continue | ast.Break)
    }
    before = -1
    while before < len(live):
        before = len(live)
        names = {each.id for part in live for each in ast.walk(part) if isinstance(each, ast.Name)} - {path.own}
        for each in nodes:
            live |= _behind(each, names, ends)
    return live


def _is_emit(node: ast.Call, path: _Path) -> bool:
    return isinstance(node.func, ast.Attribute) and not isinstance(path.value(node.func.value), _COLLECTIONS)


def _behind(node: ast.AST, names: set[str], ends: set[ast.AST]) -> set[ast.AST]:
    """Return the expressions that variables depend on, or that decide whether there is a result."""
    match node:
        case ast.Assign(targets=targets, value=value) if any(_root(each) & names for each in targets):
            return {value}
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value) if (
            _root(target) & names
        ):
            return {value}
        case ast.AnnAssign(target=target, value=ast.expr() as value) if _root(target) & names:
            return {value}
        case ast.Call(func=ast.Attribute(value=holder), args=args) if _root(holder) & names:
            return {*args}
        case ast.For(target=target, iter=value) if _root(target) & names or _decides(node, names, ends):
            return {value}
        case ast.If(test=test) | ast.While(test=test) if _decides(node, names, ends):
            return {test}
    return set()


def _decides(node: ast.AST, names: set[str], ends: set[ast.AST]) -> bool:
    assigned = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_stored(each)}
    return bool(assigned & names) or any(each in ends for each in ast.walk(node))


def _root(target: ast.AST) -> set[str]:
    """Return the variables that an assignment changes."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for each in target.elts for name in _root(each)}
    return {target.id} if isinstance(target, ast.Name) else set()
